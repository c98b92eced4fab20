//! Rows about the log, its files and how long they are kept.

use std::path::PathBuf;
use std::time::Duration;

use super::row::{converted, milliseconds, same, section, times_ms};
use crate::choice::FlushMode;
use crate::conversion::Conversion;
use crate::kind::Kind;

/// RocketMQ's names of the ways to flush.
const FLUSH_MODES: &[(&str, &str)] = &[("ASYNC_FLUSH", "async"), ("SYNC_FLUSH", "sync")];

/// RocketMQ counts the bytes of a file in a signed 32-bit number.
const FILE_SIZE_MAX: u64 = i32::MAX as u64;

const PERCENT: Kind = Kind::Integer { min: 1, max: 100 };

section!(Storage, "storage", "The data directory: commit log, queues and key index" {
    directory: PathBuf = "./sluice-data", Kind::Path,
        "Data directory, laid out like the store directory of RocketMQ",
        "in the working directory, for a first try; set an absolute path in production",
        same("storePathRootDir");
    dirs: Vec<PathBuf> = "", Kind::Paths,
        "Several data directories instead of one, ideally each on its own disk; each becomes a broker: the second has -2 after its name and 10 added to its port, the third -3 and 20, and so on",
        "one disk is enough for most; then storage.directory is used";
    log_directory: Option<PathBuf> = "", Kind::Path,
        "Directory of the commit log; when not set, commitlog in storage.directory",
        "keeps all data together; a disk of its own helps a busy broker",
        converted("storePathCommitLog", Conversion::OnePath);
    segment_size: u64 = "1GiB", Kind::Bytes { min: 65_536, max: FILE_SIZE_MAX },
        "Size of one commit log file (segment)",
        "the same as in RocketMQ, so that each can open the directory of the other",
        same("mappedFileSizeCommitLog"), same("mapedFileSizeCommitLog");
    queue_file_entries: u64 = "300000", Kind::Integer { min: 1, max: FILE_SIZE_MAX / 20 },
        "Entries in one queue file, 20 bytes each",
        "the same as in RocketMQ, so that each can open the directory of the other",
        converted("mappedFileSizeConsumeQueue", Conversion::QueueEntries),
        converted("mapedFileSizeConsumeQueue", Conversion::QueueEntries);
    flush: FlushMode = "async", Kind::Choice { known: &["async", "sync"], later: &[] },
        "When a producer gets its reply: async once the message is in the page cache, sync once it is on disk",
        "async is faster and survives a killed process; choose sync if messages must also survive power loss",
        converted("flushDiskType", Conversion::Words(FLUSH_MODES));
    flush_interval: Duration = "500ms", times_ms(1, 3_600_000),
        "How often the log is synced to disk with flush = async",
        "bounds what power loss can cost to about this much time",
        milliseconds("flushIntervalCommitLog");
    flush_timeout: Duration = "5s", times_ms(1, 3_600_000),
        "How long a producer waits for the sync with flush = sync",
        "as in RocketMQ; after that the producer gets a timeout status, and the message stays stored",
        milliseconds("syncFlushTimeout");
    queue_flush_interval: Duration = "1s", times_ms(1, 3_600_000),
        "How often queue entries in memory are written to the queue files",
        "bounds memory; nothing is lost by a longer interval, since entries can be rebuilt from the log",
        milliseconds("flushIntervalConsumeQueue");
    index_enabled: bool = "true", Kind::Boolean,
        "Whether message keys are indexed, so that messages can be found by key",
        "admin tools search by key; turn off to save disk space if nobody does",
        same("messageIndexEnable");
    index_slots: u32 = "5000000", Kind::Integer { min: 1, max: 500_000_000 },
        "Hash slots in one key index file, 4 bytes each",
        "the same as in RocketMQ, so that each can open the directory of the other",
        same("maxHashSlotNum");
    index_entries: u32 = "20000000", Kind::Integer { min: 2, max: 100_000_000 },
        "Keys in one key index file, 20 bytes each",
        "the same as in RocketMQ, so that each can open the directory of the other",
        same("maxIndexNum");
    record_checksums: bool = "false", Kind::Boolean,
        "Whether new messages get a checksum over the whole record, and existing checksums are verified",
        "as in RocketMQ, where only the body has one; costs 20 bytes a message",
        same("enabledAppendPropCRC");
    tail_cache_size: u64 = "64MiB", Kind::Bytes { min: 0, max: 1 << 40 },
        "Memory for the newest part of the log",
        "serves consumers that keep up without disk reads; raise it if consumers often lag a little";
});

section!(Retention, "retention", "When old messages are deleted" {
    age: Duration = "72h", times_ms(1_000, 3_650 * 86_400_000),
        "Age at which a log file expires, counted from its last write",
        "as in RocketMQ; outlasts a long weekend",
        converted("fileReservedTime", Conversion::Unit("h"));
    delete_hours: Vec<u8> = "04", Kind::Hours,
        "Hours of the day, in UTC, at which expired files are deleted",
        "a quiet hour in many time zones; choose your own",
        same("deleteWhen");
    size: u64 = "0", Kind::Bytes { min: 0, max: 1 << 50 },
        "Log size above which the oldest files are deleted at any hour, even before they expire; 0 for no limit",
        "only age and disk use count, as in RocketMQ; set it if the disk is shared";
    check_interval: Duration = "10s", times_ms(100, 86_400_000),
        "How often age, log size and disk use are checked",
        "as in RocketMQ; short compared with the time in which a disk fills",
        milliseconds("cleanResourceInterval");
    disk_used_percent: u32 = "75", PERCENT,
        "Disk use above which expired files are deleted at any hour",
        "leaves a quarter of the disk free for peaks",
        converted("diskMaxUsedSpaceRatio", Conversion::Clamped { min: 10, max: 95, unit: "" });
    force_enabled: bool = "true", Kind::Boolean,
        "Whether files are deleted before they expire when the disk is above disk_force_percent",
        "as in RocketMQ, prefers new messages to old; turn off if old messages must not be lost",
        same("cleanFileForciblyEnable");
    disk_force_percent: u32 = "85", PERCENT,
        "Disk use above which the oldest files are deleted even before they expire",
        "below disk_refuse_percent, so that messages are not refused first",
        same("diskSpaceCleanForciblyRatio");
    disk_refuse_percent: u32 = "90", PERCENT,
        "Disk use above which new messages are refused",
        "leaves space for offsets and for recovery after a restart",
        same("diskSpaceWarningLevelRatio");
    keeps_unsettled: bool = "false", Kind::Boolean,
        "Whether messages stay, whatever their age and the disk's use, until groups that pop have acknowledged them",
        "as in RocketMQ, where a group that is away holds nothing up; turn on if such messages must not be lost, and watch sluice_unsettled_bytes";
});
