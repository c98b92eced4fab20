//! The kernel settings that RocketMQ's operators tuned by hand, and what is left of their reasons.

use super::super::facts::{Facts, Memory};
use super::super::finding::{Finding, Mark};
use super::{KIB, MIB, size};

/// With less unwritten data than this the kernel stops writers over and over.
const DIRTY_MIN: u64 = 128 * MIB;
/// With less than this in reserve an append may have to wait until memory is made free.
const RESERVE_MIN: u64 = 16 * MIB;
/// Swappiness that leaves a process's own memory alone as long as there is page cache to be dropped.
const SWAPPINESS_MAX: u64 = 10;

pub fn judge(facts: &Facts) -> Vec<Finding> {
    let (kernel, memory) = (&facts.kernel, &facts.memory);
    let findings = [
        kernel.overcommit_memory.map(overcommit),
        kernel.min_free_kbytes.map(|kib| reserve(kib * KIB, memory)),
        kernel.zone_reclaim_mode.map(|mode| zone_reclaim(mode, memory)),
        kernel.max_map_count.map(map_count),
        kernel.dirty_background_ratio.map(|ratio| dirty_background(ratio, kernel.dirty_background_bytes, memory)),
        kernel.dirty_ratio.map(|ratio| dirty(ratio, kernel.dirty_bytes, memory)),
        kernel.page_cluster.map(page_cluster),
        kernel.dirty_writeback_centisecs.map(write_back_timer),
        kernel.swappiness.map(|swappiness| swapping(swappiness, memory)),
        kernel.huge_pages.as_deref().map(huge_pages),
        kernel.pages_out_early.then(early_page_out),
    ];
    findings.into_iter().flatten().collect()
}

fn set(name: &str, value: u64) -> String {
    format!("sysctl -w {name}={value}")
}

fn overcommit(mode: u64) -> Finding {
    let meaning = "RocketMQ needed 1 for a Java heap of gigabytes beside its mapped files. Sluice asks for what it uses: \
                   0 and 1 are the same to it, while 2 may refuse memory that is free.";
    let finding = Finding::ok("vm.overcommit_memory", mode.to_string(), meaning);
    if mode < 2 { finding } else { finding.but(Mark::Note, set("vm.overcommit_memory", 0)) }
}

fn reserve(bytes: u64, memory: &Memory) -> Finding {
    let meaning = "The reserve that keeps an append from waiting while the kernel makes memory free. RocketMQ needed \
                   5 GB for the page faults of its mapped files; Sluice has none, the kernel's own choice is enough.";
    let finding = Finding::ok("vm.min_free_kbytes", format!("{} ({})", bytes / KIB, size(bytes)), meaning);
    let total = memory.total.unwrap_or(u64::MAX);
    if bytes > total / 10 {
        return finding.but(Mark::Note, set("vm.min_free_kbytes", 64 * KIB));
    }
    // Machines with little memory have a small reserve, and that is right.
    if bytes < RESERVE_MIN.min(total / 256) {
        return finding.but(Mark::Note, set("vm.min_free_kbytes", 64 * KIB));
    }
    finding
}

fn zone_reclaim(mode: u64, memory: &Memory) -> Finding {
    let meaning = "Matters to both: with anything but 0 the kernel drops page cache of one NUMA node though another has \
                   memory left, and consumers that should read from memory read from the disk.";
    let finding = Finding::ok("vm.zone_reclaim_mode", mode.to_string(), meaning);
    match (mode, memory.nodes) {
        (0, _) => finding,
        (_, Some(1)) => finding.but(Mark::Note, set("vm.zone_reclaim_mode", 0)),
        _ => finding.but(Mark::Warn, set("vm.zone_reclaim_mode", 0)),
    }
}

fn map_count(count: u64) -> Finding {
    let meaning = "RocketMQ needed 655360, because it maps every file of log and queues. Sluice does not map files: \
                   this does not matter.";
    Finding::ok("vm.max_map_count", count.to_string(), meaning)
}

/// The threshold in bytes, and in words. A number of bytes, if set, goes before the percentage.
fn threshold(percent: u64, bytes: Option<u64>, memory: &Memory) -> (Option<u64>, String) {
    match bytes.filter(|&bytes| bytes > 0) {
        Some(bytes) => (Some(bytes), format!("{} (set in bytes)", size(bytes))),
        None => {
            let bytes = memory.available.map(|available| available / 100 * percent);
            (bytes, format!("{percent}{}", bytes.map(|bytes| format!(" ({} now)", size(bytes))).unwrap_or_default()))
        }
    }
}

fn dirty_background(percent: u64, bytes: Option<u64>, memory: &Memory) -> Finding {
    let meaning = "RocketMQ needed 50 so that the kernel did not begin to write by itself. Sluice begins the write-back \
                   of its log itself, every 4 MiB: this does not matter.";
    Finding::ok("vm.dirty_background_ratio", threshold(percent, bytes, memory).1, meaning)
}

fn dirty(percent: u64, bytes: Option<u64>, memory: &Memory) -> Finding {
    let meaning = "Above this much unwritten data the kernel stops whoever writes. RocketMQ needed 50; Sluice keeps little \
                   unwritten, so 128 MiB are enough.";
    let (bytes, found) = threshold(percent, bytes, memory);
    let finding = Finding::ok("vm.dirty_ratio", found, meaning);
    if bytes.is_some_and(|bytes| bytes < DIRTY_MIN) {
        return finding.but(Mark::Warn, set("vm.dirty_ratio", 20));
    }
    finding
}

fn page_cluster(pages: u64) -> Finding {
    let meaning = "How much is read back from swap at once; RocketMQ's 3 is the kernel's own value. A broker should not \
                   be swapped at all, so this does not matter.";
    Finding::ok("vm.page-cluster", pages.to_string(), meaning)
}

fn write_back_timer(centiseconds: u64) -> Finding {
    let meaning = "RocketMQ needed 360000 to keep the kernel's timer from writing in between. Sluice has its log written \
                   long before the timer finds it: this does not matter.";
    Finding::ok("vm.dirty_writeback_centisecs", centiseconds.to_string(), meaning)
}

fn swapping(swappiness: u64, memory: &Memory) -> Finding {
    let meaning =
        "Matters to both: a broker whose own memory is swapped out answers late. Without swap it does not matter.";
    if memory.swap_total == Some(0) {
        return Finding::ok("vm.swappiness", format!("{swappiness}, no swap"), meaning);
    }
    let finding = Finding::ok("vm.swappiness", swappiness.to_string(), meaning);
    if swappiness <= SWAPPINESS_MAX {
        return finding;
    }
    finding.but(Mark::Note, set("vm.swappiness", SWAPPINESS_MAX))
}

fn huge_pages(mode: &str) -> Finding {
    let meaning = "Sluice has them off for itself: they gain it nothing, while its memory would grow by 2 MiB at a time and \
                   the kernel might stop a thread to make such a page.";
    Finding::ok("transparent huge pages", mode, meaning)
}

fn early_page_out() -> Finding {
    let meaning = "The kernel drops pages that were not touched for a while though memory is free: consumers that lag by \
                   minutes read from the disk, and where a host takes the free memory back, new pages of the log are dear.";
    Finding::ok("DAMON", "pages out early", meaning).but(
        Mark::Note,
        "write off to the state files in /sys/kernel/mm/damon/admin/kdamonds, if nobody needs the memory",
    )
}
