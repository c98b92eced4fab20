//! Kernel settings, limits, memory and processors, as the kernel tells them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::super::facts::{Kernel, Memory, OpenFiles, Processor};
use super::{chosen, number, text};

const KIB: u64 = 1 << 10;

pub fn kernel() -> Kernel {
    let vm = |name: &str| number(format!("/proc/sys/vm/{name}"));
    Kernel {
        overcommit_memory: vm("overcommit_memory"),
        min_free_kbytes: vm("min_free_kbytes"),
        zone_reclaim_mode: vm("zone_reclaim_mode"),
        max_map_count: vm("max_map_count"),
        dirty_background_ratio: vm("dirty_background_ratio"),
        dirty_background_bytes: vm("dirty_background_bytes"),
        dirty_ratio: vm("dirty_ratio"),
        dirty_bytes: vm("dirty_bytes"),
        page_cluster: vm("page-cluster"),
        dirty_writeback_centisecs: vm("dirty_writeback_centisecs"),
        swappiness: vm("swappiness"),
        huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text).map(str::to_owned)),
        pages_out_early: pages_out_early(),
    }
}

/// Whether one of DAMON's schemes, or its module for reclaim, is at work (Documentation/admin-guide/mm/damon).
fn pages_out_early() -> bool {
    let admin = Path::new("/sys/kernel/mm/damon/admin/kdamonds");
    let is_on = |daemon: &PathBuf| text(daemon.join("state")).is_some_and(|state| state == "on");
    let schemes = |daemon: PathBuf| {
        folders(&daemon.join("contexts")).into_iter().flat_map(|context| folders(&context.join("schemes")))
    };
    let is_page_out = |scheme: PathBuf| text(scheme.join("action")).is_some_and(|action| action == "pageout");
    folders(admin).into_iter().filter(is_on).flat_map(schemes).any(is_page_out)
        || text("/sys/module/damon_reclaim/parameters/enabled").is_some_and(|enabled| enabled == "Y")
}

fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

pub fn open_files() -> OpenFiles {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    OpenFiles { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

pub fn memory() -> Memory {
    let meminfo = text("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * KIB)
    };
    let total = bytes("MemTotal");
    Memory {
        total,
        available: bytes("MemAvailable"),
        group_limit: group_limit().filter(|&limit| total.is_none_or(|total| limit < total)),
        swap_total: bytes("SwapTotal"),
        nodes: nodes().ok(),
    }
}

/// What the process's control group may have, in either version of them.
fn group_limit() -> Option<u64> {
    let groups = text("/proc/self/cgroup")?;
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        match controllers {
            "" => number(format!("/sys/fs/cgroup/{path}/memory.max")).or_else(|| number("/sys/fs/cgroup/memory.max")),
            "memory" => {
                let of = |path: &str| number(format!("/sys/fs/cgroup/memory/{path}/memory.limit_in_bytes"));
                of(path).or_else(|| of("."))
            }
            _ => None,
        }
    });
    limits.min()
}

fn nodes() -> io::Result<u64> {
    let names = fs::read_dir("/sys/devices/system/node")?.filter_map(Result::ok);
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
    Ok(names.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count() as u64)
}

/// Load average of the last minute.
pub fn load() -> Option<f64> {
    text("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Ticks of all processors since the machine started: all, and those the host gave to others.
pub fn cpu_ticks() -> Option<(u64, u64)> {
    ticks_of(&text("/proc/stat")?)
}

fn ticks_of(stat: &str) -> Option<(u64, u64)> {
    // user nice system idle iowait irq softirq steal; what follows is contained in these.
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    Some((fields.iter().sum(), *fields.get(7)?))
}

/// The processors; time that was stolen is counted from `ticks_before` on.
pub fn processor(load: Option<f64>, ticks_before: Option<(u64, u64)>) -> Processor {
    let stolen = ticks_before.zip(cpu_ticks()).and_then(|((all_before, before), (all, now))| {
        (now.saturating_sub(before) * 100).checked_div(all.saturating_sub(all_before))
    });
    let frequency = |name: &str| text(format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}"));
    Processor {
        count: std::thread::available_parallelism().map_or(1, usize::from),
        governor: frequency("scaling_governor"),
        frequency_driver: frequency("scaling_driver"),
        steal_percent: stolen,
        load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_ticks_are_the_eighth() {
        assert_eq!(ticks_of("cpu  10 1 5 80 2 0 1 3 7 0\ncpu0 1 1 1 1"), Some((102, 3)));
        assert_eq!(ticks_of("intr 1"), None);
    }

    #[test]
    fn this_machine_tells_what_every_linux_tells() {
        let memory = memory();
        assert!(memory.total > memory.available && memory.swap_total.is_some(), "{memory:?}");
        assert!(kernel().swappiness.is_some() && load().is_some());
        assert!(open_files().hard >= open_files().soft);
    }
}
