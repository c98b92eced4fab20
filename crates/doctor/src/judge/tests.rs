//! Facts in, marks out: a row for each thing that can be found.

use super::super::facts::{
    Clock, Disk, Kernel, Memory, Mount, OpenFiles, Port, PortState, Processor, Space, SyncTimes,
};
use super::super::facts::{Trials, WriteRate};
use super::super::finding::Mark;
use super::*;

fn wants() -> Wants {
    Wants {
        connections_max: 65_536,
        segment_size: GIB,
        sync_flush: false,
        disk_used_percent: 75,
        disk_refuse_percent: 90,
        memory: 224 * MIB,
    }
}

/// A machine with nothing to find fault with.
fn good() -> Facts {
    Facts {
        kernel: Kernel {
            overcommit_memory: Some(0),
            min_free_kbytes: Some(67_584),
            zone_reclaim_mode: Some(0),
            max_map_count: Some(65_530),
            dirty_background_ratio: Some(10),
            dirty_background_bytes: Some(0),
            dirty_ratio: Some(20),
            dirty_bytes: Some(0),
            page_cluster: Some(3),
            dirty_writeback_centisecs: Some(500),
            swappiness: Some(10),
            huge_pages: Some("madvise".to_owned()),
            pages_out_early: false,
        },
        open_files: Some(OpenFiles { soft: 1024, hard: 1_000_000 }),
        disks: vec![good_disk()],
        ports: vec![port(10911, false, PortState::Free)],
        clock: Clock { source: Some("tsc".to_owned()), is_synchronised: Some(true), error_us_max: Some(900) },
        memory: Memory {
            total: Some(16 * GIB),
            available: Some(12 * GIB),
            group_limit: None,
            swap_total: Some(GIB),
            nodes: Some(1),
        },
        processor: Processor { count: 8, load: Some(0.5), steal_percent: Some(0), ..Processor::default() },
    }
}

fn good_disk() -> Disk {
    Disk {
        purpose: "data".to_owned(),
        directory: "/srv/sluice".into(),
        looked_at: "/srv/sluice".into(),
        mount: Some(mount("ext4", &["rw", "relatime"])),
        space: Some(Space { free: 100 * GIB, used_percent: 20 }),
        scheduler: Some("none".to_owned()),
        is_rotational: Some(false),
        trials: Trials {
            reserve_problem: None,
            has_nowait: Some(true),
            sync: Some(SyncTimes { count: 200, p50_us: 400, p99_us: 2_000, max_us: 9_000 }),
            write: Some(WriteRate { bytes: 256 * MIB, megabytes_per_second: 2_000 }),
        },
        ..Disk::default()
    }
}

fn mount(kind: &str, options: &[&str]) -> Mount {
    let options = options.iter().map(|&option| option.to_owned()).collect();
    Mount { point: "/srv".to_owned(), kind: kind.to_owned(), source: "/dev/sdb1".to_owned(), options }
}

fn port(port: u16, is_optional: bool, state: PortState) -> Port {
    Port { setting: "rocketmq.port", host: "127.0.0.1".to_owned(), port, is_optional, state }
}

fn sync(p50_us: u64, p99_us: u64) -> Option<SyncTimes> {
    Some(SyncTimes { count: 200, p50_us, p99_us, max_us: p99_us })
}

/// Asks that, with one thing changed, this subject and no other has this mark.
#[track_caller]
fn check(change: impl FnOnce(&mut Facts), subject: &str, mark: Mark) -> Finding {
    check_with(change, &wants(), subject, mark)
}

#[track_caller]
fn check_with(change: impl FnOnce(&mut Facts), wants: &Wants, subject: &str, mark: Mark) -> Finding {
    let mut facts = good();
    change(&mut facts);
    let findings = judge(&facts, wants);
    let marked: Vec<_> =
        findings.iter().filter(|one| one.mark != Mark::Ok).map(|one| (&*one.subject, one.mark)).collect();
    let expected = if mark == Mark::Ok { vec![] } else { vec![(subject, mark)] };
    assert_eq!(marked, expected);
    findings.into_iter().find(|finding| finding.subject == subject).expect("the subject is looked at")
}

#[test]
fn a_good_machine_has_nothing_but_ok_and_every_line_says_what_matters() {
    let findings = judge(&good(), &wants());
    assert!(findings.len() >= 22, "{}", findings.len());
    for finding in findings {
        assert_eq!((finding.mark, &finding.remedy), (Mark::Ok, &None), "{finding:?}");
        assert!(
            finding.meaning.ends_with('.') && !finding.found.is_empty() && !finding.meaning.contains("  "),
            "{finding:?}"
        );
    }
}

#[test]
fn what_the_machine_does_not_tell_is_passed_over() {
    assert_eq!(judge(&Facts::default(), &wants()).len(), 1, "the count of processors is always known");
}

#[test]
fn kernel_settings() {
    type Change = fn(&mut Kernel);
    let rows: &[(Change, &str, Mark)] = &[
        (|kernel| kernel.overcommit_memory = Some(1), "vm.overcommit_memory", Mark::Ok),
        (|kernel| kernel.overcommit_memory = Some(2), "vm.overcommit_memory", Mark::Note),
        (|kernel| kernel.min_free_kbytes = Some(5_000_000), "vm.min_free_kbytes", Mark::Note),
        (|kernel| kernel.min_free_kbytes = Some(1_024), "vm.min_free_kbytes", Mark::Note),
        (|kernel| kernel.zone_reclaim_mode = Some(1), "vm.zone_reclaim_mode", Mark::Note),
        (|kernel| kernel.max_map_count = Some(1_000), "vm.max_map_count", Mark::Ok),
        (|kernel| kernel.dirty_background_ratio = Some(50), "vm.dirty_background_ratio", Mark::Ok),
        (|kernel| kernel.dirty_ratio = Some(50), "vm.dirty_ratio", Mark::Ok),
        (|kernel| kernel.dirty_ratio = Some(1), "vm.dirty_ratio", Mark::Warn),
        (|kernel| kernel.dirty_bytes = Some(64 * MIB), "vm.dirty_ratio", Mark::Warn),
        (|kernel| kernel.dirty_bytes = Some(GIB), "vm.dirty_ratio", Mark::Ok),
        (|kernel| kernel.page_cluster = Some(0), "vm.page-cluster", Mark::Ok),
        (|kernel| kernel.dirty_writeback_centisecs = Some(360_000), "vm.dirty_writeback_centisecs", Mark::Ok),
        (|kernel| kernel.swappiness = Some(60), "vm.swappiness", Mark::Note),
        (|kernel| kernel.huge_pages = Some("always".to_owned()), "transparent huge pages", Mark::Ok),
        (|kernel| kernel.pages_out_early = true, "DAMON", Mark::Note),
        (|kernel| kernel.huge_pages = Some("never".to_owned()), "transparent huge pages", Mark::Ok),
    ];
    for (change, subject, mark) in rows {
        let finding = check(|facts| change(&mut facts.kernel), subject, *mark);
        assert_eq!(finding.remedy.is_some(), *mark != Mark::Ok, "{finding:?}");
    }
    let numa = |facts: &mut Facts| (facts.kernel.zone_reclaim_mode, facts.memory.nodes) = (Some(1), Some(2));
    check(numa, "vm.zone_reclaim_mode", Mark::Warn);
    let without_swap = |facts: &mut Facts| (facts.kernel.swappiness, facts.memory.swap_total) = (Some(60), Some(0));
    check(without_swap, "vm.swappiness", Mark::Ok);
    assert!(check(|_| (), "vm.max_map_count", Mark::Ok).meaning.contains("does not map files"));
}

#[test]
fn open_files_memory_processors_and_clock() {
    for (hard, mark) in
        [(u64::MAX, Mark::Ok), (69_632, Mark::Ok), (20_000, Mark::Note), (1_024, Mark::Warn), (40, Mark::Fail)]
    {
        check(|facts| facts.open_files = Some(OpenFiles { soft: 40, hard }), "open files", mark);
    }
    for (available, group_limit, mark) in [
        (2 * GIB, None, Mark::Ok),
        (GIB, None, Mark::Note),
        (200 * MIB, None, Mark::Warn),
        (12 * GIB, Some(512 * MIB), Mark::Note),
        (12 * GIB, Some(128 * MIB), Mark::Warn),
    ] {
        // With so little memory nothing may stay unwritten either.
        let change = |facts: &mut Facts| {
            facts.memory.available = Some(available);
            facts.memory.group_limit = group_limit;
            facts.kernel.dirty_bytes = Some(GIB);
        };
        check(change, "memory", mark);
    }
    for (governor, driver, mark) in [
        ("performance", "acpi-cpufreq", Mark::Ok),
        ("schedutil", "acpi-cpufreq", Mark::Ok),
        ("powersave", "acpi-cpufreq", Mark::Note),
        ("powersave", "intel_pstate", Mark::Ok),
        ("powersave", "amd-pstate-epp", Mark::Ok),
    ] {
        let change = |facts: &mut Facts| {
            (facts.processor.governor, facts.processor.frequency_driver) = (Some(governor.into()), Some(driver.into()));
        };
        check(change, "frequency governor", mark);
    }
    for (steal, mark) in [(1, Mark::Ok), (3, Mark::Note), (5, Mark::Warn)] {
        check(|facts| facts.processor.steal_percent = Some(steal), "stolen time", mark);
    }
    check(|facts| facts.processor.count = 1, "processors", Mark::Note);
    check(|facts| facts.processor.load = Some(6.0), "processors", Mark::Note);
    check(|facts| facts.clock.source = Some("acpi_pm".to_owned()), "clock source", Mark::Note);
    check(|facts| facts.clock.is_synchronised = Some(false), "clock", Mark::Warn);
    check(|facts| facts.clock.error_us_max = Some(16_000_000), "clock", Mark::Note);
}

#[test]
fn ports() {
    for (is_optional, state, mark) in [
        (false, PortState::Free, Mark::Ok),
        (false, PortState::InUse, Mark::Fail),
        (false, PortState::Refused("no".to_owned()), Mark::Fail),
        (true, PortState::InUse, Mark::Note),
    ] {
        check(|facts| facts.ports = vec![port(10911, is_optional, state)], "port 10911", mark);
    }
    // Whoever has the directory has the ports too: nothing is wrong with that.
    let mut facts = good();
    facts.disks = vec![Disk { held_by: Some(7), ..good_disk() }];
    facts.ports = vec![port(10911, false, PortState::InUse)];
    let marks: Vec<_> = judge(&facts, &wants()).into_iter().filter(|finding| finding.mark != Mark::Ok).collect();
    assert_eq!(
        marks.iter().map(|finding| (&*finding.subject, finding.mark)).collect::<Vec<_>>(),
        [("data directory", Mark::Note), ("port 10911", Mark::Note)]
    );
}

#[test]
fn file_systems() {
    for (kind, mark) in [
        ("ext4", Mark::Ok),
        ("xfs", Mark::Ok),
        ("btrfs", Mark::Note),
        ("overlay", Mark::Warn),
        ("nfs4", Mark::Warn),
        ("fuse.sshfs", Mark::Warn),
        ("tmpfs", Mark::Warn),
        ("vfat", Mark::Warn),
        ("f2fs", Mark::Note),
    ] {
        check(|facts| facts.disks[0].mount = Some(mount(kind, &["rw"])), "file system", mark);
    }
    for (options, mark) in [
        (&["rw", "noatime", "errors=remount-ro"][..], Mark::Ok),
        (&["ro"], Mark::Fail),
        (&["rw", "discard", "barrier=0"], Mark::Warn),
        (&["rw", "sync"], Mark::Warn),
        (&["rw", "data=journal"], Mark::Note),
        (&["rw", "discard"], Mark::Note),
    ] {
        check(|facts| facts.disks[0].mount = Some(mount("ext4", options)), "mount options", mark);
    }
}

#[test]
fn disks() {
    type Change = fn(&mut Disk);
    let rows: &[(Change, &str, Mark)] = &[
        (|disk| disk.held_by = Some(7), "data directory", Mark::Note),
        (|disk| disk.looked_at = "/srv".into(), "data directory", Mark::Ok),
        (|disk| disk.space = Some(Space { free: GIB / 2, used_percent: 20 }), "free space", Mark::Fail),
        (|disk| disk.space = Some(Space { free: 3 * GIB / 2, used_percent: 20 }), "free space", Mark::Warn),
        (|disk| disk.space = Some(Space { free: 9 * GIB, used_percent: 80 }), "free space", Mark::Note),
        (|disk| disk.space = Some(Space { free: 9 * GIB, used_percent: 91 }), "free space", Mark::Fail),
        (|disk| disk.scheduler = Some("mq-deadline".to_owned()), "I/O scheduler", Mark::Ok),
        (|disk| disk.scheduler = Some("bfq".to_owned()), "I/O scheduler", Mark::Note),
        (|disk| disk.is_rotational = Some(true), "I/O scheduler", Mark::Ok),
        (|disk| (disk.is_rotational, disk.trials.sync) = (Some(true), sync(8_000, 9_000)), "I/O scheduler", Mark::Note),
        (|disk| disk.trials.reserve_problem = Some("not supported".to_owned()), "reserving space", Mark::Fail),
        (|disk| disk.trials.has_nowait = Some(false), "reads that do not wait", Mark::Note),
        (|disk| disk.trials.sync = sync(8_000, 60_000), "sync latency", Mark::Ok),
        (|disk| disk.trials.sync = sync(20_000, 60_000), "sync latency", Mark::Note),
        (|disk| disk.trials.sync = sync(80_000, 90_000), "sync latency", Mark::Warn),
        (|disk| disk.trials.sync = sync(5, 9), "sync latency", Mark::Note),
        (
            |disk| disk.trials.write = Some(WriteRate { bytes: MIB, megabytes_per_second: 200 }),
            "page-cache writes",
            Mark::Note,
        ),
        (
            |disk| disk.trials.write = Some(WriteRate { bytes: MIB, megabytes_per_second: 50 }),
            "page-cache writes",
            Mark::Warn,
        ),
    ];
    for (change, subject, mark) in rows {
        check(|facts| change(&mut facts.disks[0]), subject, *mark);
    }
    let with_segment = |facts: &mut Facts| {
        facts.disks[0].has_segment = true;
        facts.disks[0].space = Some(Space { free: GIB / 2, used_percent: 20 });
    };
    check(with_segment, "free space", Mark::Warn);
    let with_sync = Wants { sync_flush: true, ..wants() };
    for (p50_us, p99_us, mark) in [(800, 2_000, Mark::Ok), (800, 60_000, Mark::Note), (20_000, 60_000, Mark::Warn)] {
        check_with(|facts| facts.disks[0].trials.sync = sync(p50_us, p99_us), &with_sync, "sync latency", mark);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_not_tried_and_a_log_of_its_own_is_named() {
    let finding =
        check(|facts| facts.disks[0].problem = Some("Permission denied".to_owned()), "data directory", Mark::Fail);
    assert!(finding.found.contains("Permission denied") && finding.remedy.is_some_and(|text| text.contains("--data")));
    let mut facts = good();
    facts.disks.push(Disk { purpose: "log".to_owned(), ..good_disk() });
    let subjects: Vec<_> = judge(&facts, &wants()).into_iter().map(|finding| finding.subject).collect();
    assert!(subjects.contains(&"log directory".to_owned()) && subjects.contains(&"log: sync latency".to_owned()));
}
