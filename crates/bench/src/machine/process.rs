//! Memory, CPU and disk writes of the broker's process, as the kernel counts them (`/proc/PID`).
//!
//! Resident memory is of two kinds: a process's own (`RssAnon`, `RssShmem`), which nobody else can have, and pages of files that it
//! has mapped (`RssFile`), which the kernel takes back when it wants. A broker that maps its store has all of it counted here, one
//! that reads and writes has none: beside one another stand their own memory, and what of their files is in the page cache.

use std::fs;
use std::path::Path;

use rustix::param::clock_ticks_per_second;
use serde::Serialize;

use crate::machine::page_cache::cached_mib;

const KIB_PER_MIB: f64 = 1024.0;

/// One look at a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSample {
    /// CPU time since it started.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_mib: f64,
    /// Most it ever had resident.
    pub resident_max_mib: f64,
    /// Resident memory that is its own: no page of a file.
    pub own_mib: f64,
    /// Resident pages of files that it has mapped, its program among them.
    pub mapped_mib: f64,
    /// Bytes it caused to be written to disks; unknown without permission.
    pub written_mib: Option<f64>,
}

/// What the broker's process used during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrokerUsage {
    /// Its process id; of several, the first.
    pub pid: u32,
    /// CPU time used during the measurement.
    pub cpu_seconds: f64,
    /// Resident memory at the end, in MiB.
    pub resident_mib: f64,
    /// Most it ever had resident, in MiB.
    pub resident_max_mib: f64,
    /// Most resident memory of its own, in MiB, as seen once a second during the measurement.
    pub own_max_mib: f64,
    /// Resident pages of files that it had mapped at the end, in MiB, its program among them.
    pub mapped_mib: f64,
    /// What of the files in its data directories was in the page cache at the end, in MiB, mapped or not; unknown without the
    /// directories, and where the kernel does not tell.
    pub page_cache_mib: Option<f64>,
    /// MiB it caused to be written to disks during the measurement; unknown without permission.
    pub written_mib: Option<f64>,
}

impl ProcessSample {
    /// Looks at process `pid`; `None` if there is none.
    pub fn take(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let written =
            fs::read_to_string(format!("/proc/{pid}/io")).ok().and_then(|io| line_number(&io, "write_bytes:"));
        let mib = |name| line_number(&status, name).unwrap_or(0.0) / KIB_PER_MIB;
        Some(Self {
            cpu_seconds: cpu_ticks(&stat)? / clock_ticks_per_second() as f64,
            resident_mib: mib("VmRSS:"),
            resident_max_mib: mib("VmHWM:"),
            own_mib: mib("RssAnon:") + mib("RssShmem:"),
            mapped_mib: mib("RssFile:"),
            written_mib: written.map(|bytes| bytes / KIB_PER_MIB / KIB_PER_MIB),
        })
    }

    /// Looks at several processes and adds up what it sees; `None` if one is missing, or there are none to look at.
    pub fn take_all(pids: &[u32]) -> Option<Self> {
        let mut samples = pids.iter().map(|&pid| Self::take(pid));
        let first = samples.next()??;
        samples.try_fold(first, |sum, sample| sample.map(|sample| sum.plus(&sample)))
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            resident_mib: self.resident_mib + other.resident_mib,
            resident_max_mib: self.resident_max_mib + other.resident_max_mib,
            own_mib: self.own_mib + other.own_mib,
            mapped_mib: self.mapped_mib + other.mapped_mib,
            written_mib: self.written_mib.zip(other.written_mib).map(|(one, other)| one + other),
        }
    }
}

impl BrokerUsage {
    /// What was used between two looks; `own_max_mib` is the most of those between them, `data` where its files are.
    pub fn between(
        pid: u32,
        first: &ProcessSample,
        last: &ProcessSample,
        own_max_mib: f64,
        data: &[impl AsRef<Path>],
    ) -> Self {
        Self {
            pid,
            cpu_seconds: last.cpu_seconds - first.cpu_seconds,
            resident_mib: last.resident_mib,
            resident_max_mib: last.resident_max_mib,
            own_max_mib: own_max_mib.max(first.own_mib).max(last.own_mib),
            mapped_mib: last.mapped_mib,
            page_cache_mib: cached_mib(data),
            written_mib: last.written_mib.zip(first.written_mib).map(|(last, first)| last - first),
        }
    }
}

/// The number after `name` at the start of a line.
pub fn line_number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time of a `/proc/PID/stat` line; its second field is a name that may hold anything.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_look_at_itself_and_not_at_nobody() {
        let sample = ProcessSample::take(std::process::id()).expect("this process");
        assert!(sample.resident_mib > 0.5 && sample.resident_max_mib >= sample.resident_mib * 0.9);
        assert!(
            (sample.own_mib + sample.mapped_mib - sample.resident_mib).abs() < sample.resident_mib * 0.2,
            "{sample:?}"
        );
        assert_eq!(ProcessSample::take(u32::MAX), None);
    }

    #[test]
    fn own_memory_is_the_most_of_all_looks_and_mapped_files_are_no_part_of_it() {
        let look = |own_mib, mapped_mib| ProcessSample {
            cpu_seconds: 1.0,
            resident_mib: own_mib + mapped_mib,
            resident_max_mib: 9_000.0,
            own_mib,
            mapped_mib,
            written_mib: None,
        };
        let usage = BrokerUsage::between(7, &look(80.0, 0.0), &look(50.0, 4_000.0), 120.0, &["/nowhere"]);
        assert_eq!((usage.own_max_mib, usage.mapped_mib, usage.page_cache_mib), (120.0, 4_000.0, None));
        assert_eq!(look(80.0, 1.0).plus(&look(20.0, 3.0)).own_mib, 100.0);
    }

    #[test]
    fn odd_process_names_do_not_shift_the_fields() {
        assert_eq!(cpu_ticks("7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0"), Some(300.0));
    }
}
