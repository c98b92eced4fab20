//! Which file systems and mount options suit a log that lives on positioned writes, reserved space and `fdatasync`.

use super::super::facts::{Disk, Mount};
use super::super::finding::{Finding, Mark};

/// What is known about a kind of file system.
struct Known {
    kinds: &'static [&'static str],
    mark: Mark,
    meaning: &'static str,
    remedy: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        kinds: &["ext4", "xfs"],
        mark: Mark::Ok,
        meaning: "Reserves space, reads without waiting, and syncs a file alone: what the log is made for.",
        remedy: "",
    },
    Known {
        kinds: &["btrfs", "zfs", "bcachefs"],
        mark: Mark::Note,
        meaning: "Copies what is written again, so that reserved space does not help and a sync writes more than the data.",
        remedy: "use ext4 or xfs for the data directory (btrfs: chattr +C on the empty directory)",
    },
    Known {
        kinds: &["overlay", "aufs"],
        mark: Mark::Warn,
        meaning: "The layer of a container: messages go when the container goes.",
        remedy: "mount a volume for the data directory",
    },
    Known {
        kinds: &["tmpfs", "ramfs"],
        mark: Mark::Warn,
        meaning: "Memory: messages go with the next restart of the machine, and a sync promises nothing.",
        remedy: "choose a directory on a disk: --data DIR",
    },
    Known {
        kinds: &["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "fuse", "virtiofs"],
        mark: Mark::Warn,
        meaning: "Files of another machine or program: locks, reserved space and syncs are only as good as that, and every \
                  pause of it is a pause of the broker.",
        remedy: "choose a directory on a local disk: --data DIR",
    },
    Known {
        kinds: &["ext2", "ext3", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk", "hfsplus", "minix"],
        mark: Mark::Warn,
        meaning: "Cannot reserve space, or does not come back whole from a power cut.",
        remedy: "use ext4 or xfs for the data directory",
    },
];

/// The kind of file system.
pub fn kind(mount: &Mount, subject: String) -> Finding {
    let base = mount.kind.split('.').next().unwrap_or_default();
    let found = format!("{} on {}", mount.kind, mount.point);
    match KNOWN.iter().find(|known| known.kinds.contains(&base)) {
        Some(known) if known.mark == Mark::Ok => Finding::ok(subject, found, known.meaning),
        Some(known) => Finding::ok(subject, found, known.meaning).but(known.mark, known.remedy),
        None => {
            Finding::ok(subject, found, "Nothing is known about it here; what it can do was tried, see below.").noted()
        }
    }
}

/// What options of a mount do to the log.
struct Harm {
    options: &'static [&'static str],
    mark: Mark,
    meaning: &'static str,
    remedy: &'static str,
}

const HARMS: &[Harm] = &[
    Harm { options: &["ro"], mark: Mark::Fail, meaning: "Nothing can be written.", remedy: "mount -o remount,rw" },
    Harm {
        options: &["barrier=0", "nobarrier"],
        mark: Mark::Warn,
        meaning: "Without barriers a sync promises nothing: power loss takes what storage.flush = sync has acknowledged.",
        remedy: "mount -o remount,barrier=1",
    },
    Harm {
        options: &["sync"],
        mark: Mark::Warn,
        meaning: "Every write waits for the disk; Sluice syncs where a promise needs it and nowhere else.",
        remedy: "mount -o remount,async",
    },
    Harm {
        options: &["data=journal"],
        mark: Mark::Note,
        meaning: "Every message goes to the disk twice, first to the journal.",
        remedy: "mount with data=ordered",
    },
    Harm {
        options: &["discard"],
        mark: Mark::Note,
        meaning: "When a segment is deleted, the disk is told at once, which can hold up syncs.",
        remedy: "mount -o remount,nodiscard  (and systemctl enable --now fstrim.timer)",
    },
    Harm {
        options: &["strictatime"],
        mark: Mark::Note,
        meaning: "Every read of a file changes its times, which the disk has to write.",
        remedy: "mount -o remount,relatime",
    },
];

/// The worst of the mount's options.
pub fn options(mount: &Mount, subject: String) -> Finding {
    let mut found: Vec<&str> = mount.options.iter().map(String::as_str).collect();
    found.dedup();
    let harm = HARMS
        .iter()
        .filter(|harm| harm.options.iter().any(|option| found.contains(option)))
        .max_by_key(|harm| harm.mark);
    let list = found.join(",");
    match harm {
        Some(harm) => {
            let remedy = match harm.remedy {
                command if command.starts_with("mount -o") && !command.contains("  (") => {
                    format!("{command} {}", mount.point)
                }
                other => other.to_owned(),
            };
            Finding::ok(subject, list, harm.meaning).but(harm.mark, remedy)
        }
        None => Finding::ok(subject, list, "None of them weakens a sync or slows a write."),
    }
}

/// No disk that turns syncs faster, in microseconds.
const SYNC_OF_TURNING_US: u64 = 1_000;

/// The I/O scheduler.
pub fn scheduler(disk: &Disk, subject: String) -> Option<Finding> {
    let scheduler = disk.scheduler.as_deref()?;
    // Virtual disks often say that they turn; one that syncs within a millisecond does not.
    let syncs_at_once = disk.trials.sync.is_some_and(|times| times.p50_us < SYNC_OF_TURNING_US);
    let is_rotational = disk.is_rotational == Some(true) && !syncs_at_once;
    let meaning = if is_rotational {
        "RocketMQ needed deadline, so that reads did not wait behind its write-back; on a disk that turns, mq-deadline does \
         the same for Sluice."
    } else {
        "RocketMQ needed deadline, so that reads did not wait behind its write-back. Sluice writes back in small steps, and \
         flash needs no sorting: none or mq-deadline."
    };
    let found = format!("{scheduler}{}", if is_rotational { ", a disk that turns" } else { "" });
    let finding = Finding::ok(subject, found, meaning);
    let set = |name: &str| format!("echo {name} > /sys/block/DISK/queue/scheduler  (DISK as in lsblk)");
    Some(match (scheduler, is_rotational) {
        ("none" | "noop", true) => finding.but(Mark::Note, set("mq-deadline")),
        ("none" | "noop" | "mq-deadline" | "deadline" | "kyber", _) | ("bfq", true) => finding,
        (_, is_rotational) => finding.but(Mark::Note, set(if is_rotational { "mq-deadline" } else { "none" })),
    })
}
