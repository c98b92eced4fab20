//! The machine a run is made on: its clocks, processors, memory and processes. Figures mean little without it.

pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod disk_space;
pub(crate) mod open_files;
pub(crate) mod page_cache;
pub(crate) mod process;

use std::fs;

use serde::Serialize;

use process::line_number;

/// What the figures were measured on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Logical processors this process may use.
    pub processors: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Load average of the minute before the run.
    pub load_before: f64,
}

impl Machine {
    /// This machine; what it does not tell is empty or 0.
    pub fn describe() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
        let load = read("/proc/loadavg");
        Self {
            processor: model.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: (line_number(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0.0) / 1024.0) as u64,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: load.split(' ').next().and_then(|minute| minute.parse().ok()).unwrap_or(0.0),
        }
    }
}
