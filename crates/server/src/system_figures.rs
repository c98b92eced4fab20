//! What the system counts of this process.

use console::ProcessFigures;
use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};

/// The figures now; `None` where `/proc` is not there.
pub(crate) fn read() -> Option<ProcessFigures> {
    figures().ok()
}

fn figures() -> ProcResult<ProcessFigures> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = stat.utime + stat.stime;
    let files_max = match process.limits()?.max_open_files.soft_limit {
        LimitValue::Value(files) => Some(files),
        LimitValue::Unlimited => None,
    };
    Ok(ProcessFigures {
        processor_ms: ticks * 1000 / procfs::ticks_per_second(),
        memory_bytes: stat.rss_bytes().get(),
        files: process.fd_count()? as u64,
        files_max,
        started_ms: (procfs::boot_time_secs()? + stat.starttime / procfs::ticks_per_second()) * 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_files_and_a_past() {
        let figures = read().expect("/proc");
        assert!(figures.memory_bytes > 1 << 20 && figures.files > 2, "{figures:?}");
        let since_ms = crate::clock::now().wall.0.saturating_sub(figures.started_ms);
        assert!(since_ms < 3_600_000, "{figures:?}");
    }
}
