//! A directory and the disk under it: whether it can be written, what it can do, and how fast it is.

use super::super::facts::{Disk, Space, SyncTimes, Wants, WriteRate};
use super::super::finding::{Finding, Mark};
use super::{file_system, size, time};

/// Syncs slower than this are slow, and very slow, in microseconds.
const SYNC_SLOW_US: u64 = 10_000;
const SYNC_VERY_SLOW_US: u64 = 50_000;
/// No disk that keeps its word syncs faster.
const SYNC_QUICKEST_US: u64 = 20;
/// Rates of writes into the page cache that are less than usual, and little, in millions of bytes a second.
const WRITE_SMALL: u64 = 300;
const WRITE_VERY_SMALL: u64 = 100;

pub fn judge(disk: &Disk, wants: &Wants) -> Vec<Finding> {
    let name = |what: &str| if disk.purpose == "data" { what.to_owned() } else { format!("{}: {what}", disk.purpose) };
    let mut findings = vec![directory(disk, format!("{} directory", disk.purpose))];
    if let Some(mount) = &disk.mount {
        findings.push(file_system::kind(mount, name("file system")));
        findings.push(file_system::options(mount, name("mount options")));
    }
    findings.extend(disk.space.map(|space| room(disk, space, wants, name("free space"))));
    findings.extend(file_system::scheduler(disk, name("I/O scheduler")));
    if disk.problem.is_none() {
        findings.push(reserve(disk, name("reserving space")));
        findings.extend(disk.trials.has_nowait.map(|has| nowait(has, name("reads that do not wait"))));
        findings.extend(disk.trials.sync.map(|times| sync(disk, times, wants, name("sync latency"))));
        findings.extend(disk.trials.write.map(|rate| write(rate, name("page-cache writes"))));
    }
    findings
}

fn directory(disk: &Disk, subject: String) -> Finding {
    let shown = disk.directory.display();
    if let Some(problem) = &disk.problem {
        let remedy =
            format!("choose another with --data DIR, or give this user write access to {}", disk.looked_at.display());
        return Finding::ok(subject, format!("{shown}: {problem}"), "Without it a broker does not start.")
            .but(Mark::Fail, remedy);
    }
    if let Some(process) = disk.held_by {
        let meaning = "One broker at a time has a directory. The measurements below share the disk with that one.";
        return Finding::ok(subject, format!("{shown}, in use by process {process}"), meaning).noted();
    }
    let found = if disk.looked_at == disk.directory { shown.to_string() } else { format!("{shown}, not made yet") };
    Finding::ok(subject, found, "Can be written, and no broker has it open.")
}

fn room(disk: &Disk, space: Space, wants: &Wants, subject: String) -> Finding {
    let Space { free, used_percent } = space;
    let meaning = format!(
        "The log takes {} at a time and prepares the next segment ahead; above {} % in use old segments go, above {} % \
         messages are refused.",
        size(wants.segment_size),
        wants.disk_used_percent,
        wants.disk_refuse_percent
    );
    let finding = Finding::ok(subject, format!("{}, {used_percent} % in use", size(free)), meaning);
    let remedy = "make room, choose another disk with --data DIR, or set retention.age and storage.segment_size lower";
    if !disk.has_segment && free < wants.segment_size || used_percent > wants.disk_refuse_percent {
        return finding.but(Mark::Fail, remedy);
    }
    if free < 2 * wants.segment_size {
        return finding.but(Mark::Warn, remedy);
    }
    if used_percent > wants.disk_used_percent {
        return finding.but(Mark::Note, remedy);
    }
    finding
}

fn reserve(disk: &Disk, subject: String) -> Finding {
    let meaning = "Each segment is reserved in full with fallocate, so that a write cannot run out of space and a sync has less \
                   to do. Sluice does not start where that is impossible.";
    match &disk.trials.reserve_problem {
        None => Finding::ok(subject, "fallocate works", meaning),
        Some(problem) => {
            let remedy = "choose a directory on ext4 or xfs: --data DIR";
            Finding::ok(subject, format!("fallocate: {problem}"), meaning).but(Mark::Fail, remedy)
        }
    }
}

fn nowait(has: bool, subject: String) -> Finding {
    let meaning = "Reads with RWF_NOWAIT let a network thread take what is in the page cache and leave the rest to others; \
                   without them every read that is not in Sluice's own memory changes threads.";
    if has {
        return Finding::ok(subject, "work", meaning);
    }
    Finding::ok(subject, "not supported", meaning).but(Mark::Note, "use ext4 or xfs for the data directory")
}

fn sync(disk: &Disk, times: SyncTimes, wants: &Wants, subject: String) -> Finding {
    let SyncTimes { count, p50_us, p99_us, .. } = times;
    let found = format!("p50 {}, p99 {} ({count} x 4 KiB)", time(p50_us), time(p99_us));
    let is_memory = disk.mount.as_ref().is_some_and(|mount| matches!(mount.kind.as_str(), "tmpfs" | "ramfs"));
    if p50_us < SYNC_QUICKEST_US && !is_memory {
        let meaning = "Faster than a disk can be: something on the way says done before it is, and power loss may take what was \
                       acknowledged.";
        let remedy = "ask whoever runs the disk or the host whether its cache is safe from power loss";
        return Finding::ok(subject, found, meaning).but(Mark::Note, remedy);
    }
    let meaning = if wants.sync_flush {
        "storage.flush is sync: a lone sender waits for one of these; those who send at once share one."
    } else {
        "storage.flush is async: nobody waits for a sync, and a slow one only adds to what power loss takes. With sync a lone \
         sender waits for one, and those who send at once share it."
    };
    let finding = Finding::ok(subject, found, meaning);
    let remedy = "use a faster disk (storage.log_directory can be one of its own)";
    match (p50_us, wants.sync_flush) {
        (..=SYNC_SLOW_US, true) if p99_us > SYNC_VERY_SLOW_US => finding.but(Mark::Note, remedy),
        (..=SYNC_SLOW_US, _) => finding,
        (..=SYNC_VERY_SLOW_US, false) => finding.but(Mark::Note, remedy),
        _ => finding.but(Mark::Warn, remedy),
    }
}

fn write(rate: WriteRate, subject: String) -> Finding {
    let WriteRate { bytes, megabytes_per_second } = rate;
    let meaning = "Every message is copied into the page cache once, so this bounds the log. On a virtual machine it is low until \
                   the host has given the memory: then a second look shows more.";
    let finding = Finding::ok(subject, format!("{megabytes_per_second} MB/s ({})", size(bytes)), meaning);
    let remedy = "see what else the machine does now (vmstat 1), then: sluice bench limit --data DIR";
    match megabytes_per_second {
        WRITE_SMALL.. => finding,
        WRITE_VERY_SMALL.. => finding.but(Mark::Note, remedy),
        _ => finding.but(Mark::Warn, remedy),
    }
}
