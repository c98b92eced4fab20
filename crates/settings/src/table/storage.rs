//! Rows about the log, its files and how long they are kept.

use std::path::PathBuf;
use std::time::Duration;

use super::{converted, milliseconds, same, section, times_ms};
use crate::choice::FlushMode;
use crate::conversion::Conversion;
use crate::kind::Kind;

/// RocketMQ's names of the ways to flush.
const FLUSH_MODES: &[(&str, &str)] = &[("ASYNC_FLUSH", "async"), ("SYNC_FLUSH", "sync")];

/// RocketMQ counts the bytes of a file in a signed 32-bit number.
const FILE_SIZE_MAX: u64 = i32::MAX as u64;

const PERCENT: Kind = Kind::Integer { min: 1, max: 100 };

section!(Storage, "storage", "The log and the files around it" {
    directory: PathBuf = "./sluice-data", Kind::Path,
        "Directory of all data; laid out as RocketMQ's store directory",
        "where the process was started, so that trying it leaves one folder",
        same("storePathRootDir");
    dirs: Vec<PathBuf> = "", Kind::Paths,
        "Several directories instead of one, each best on a disk of its own; each gets a broker: the second has -2 after its name and 10 added to its port, the third -3 and 20, and so on",
        "one disk is enough for most; storage.directory is then the one";
    log_directory: Option<PathBuf> = "", Kind::Path,
        "Directory of the log; when not set, commitlog in storage.directory",
        "one place for all data; a disk of its own helps a busy broker",
        converted("storePathCommitLog", Conversion::OnePath);
    segment_size: u64 = "1GiB", Kind::Bytes { min: 65_536, max: FILE_SIZE_MAX },
        "Size of one file of the log",
        "RocketMQ's size, so that each can open the other's directory",
        same("mappedFileSizeCommitLog"), same("mapedFileSizeCommitLog");
    queue_file_entries: u64 = "300000", Kind::Integer { min: 1, max: FILE_SIZE_MAX / 20 },
        "Entries in one file of a queue, 20 bytes each",
        "RocketMQ's size, so that each can open the other's directory",
        converted("mappedFileSizeConsumeQueue", Conversion::QueueEntries),
        converted("mapedFileSizeConsumeQueue", Conversion::QueueEntries);
    flush: FlushMode = "async", Kind::Choice { known: &["async", "sync"], later: &[] },
        "When a producer is answered: async once in the page cache, sync once on disk",
        "fast, and safe from a killed process; sync is safe from power loss too",
        converted("flushDiskType", Conversion::Words(FLUSH_MODES));
    flush_interval: Duration = "500ms", times_ms(1, 3_600_000),
        "How often the log is written to disk when flush is async",
        "what power loss can take stays below a second",
        milliseconds("flushIntervalCommitLog");
    flush_timeout: Duration = "5s", times_ms(1, 3_600_000),
        "How long a producer waits for the disk when flush is sync",
        "as in RocketMQ; the message stays, the producer is told of the timeout",
        milliseconds("syncFlushTimeout");
    queue_flush_interval: Duration = "1s", times_ms(1, 3_600_000),
        "How often the files of the queues are written to disk",
        "they can be made again from the log, so this only shortens recovery",
        milliseconds("flushIntervalConsumeQueue");
    index_enabled: bool = "true", Kind::Boolean,
        "Whether messages can be found by key",
        "the admin tools find messages by it",
        same("messageIndexEnable");
    index_slots: u32 = "5000000", Kind::Integer { min: 1, max: 500_000_000 },
        "Hash slots in one index file, 4 bytes each",
        "RocketMQ's size, so that each can open the other's directory",
        same("maxHashSlotNum");
    index_entries: u32 = "20000000", Kind::Integer { min: 2, max: 100_000_000 },
        "Keys in one index file, 20 bytes each",
        "RocketMQ's size, so that each can open the other's directory",
        same("maxIndexNum");
    record_checksums: bool = "false", Kind::Boolean,
        "Whether each record gets a checksum over all of it, and those there are must hold",
        "as in RocketMQ; 20 bytes a message that catch damage to more than its body",
        same("enabledAppendPropCRC");
    tail_cache_size: u64 = "64MiB", Kind::Bytes { min: 0, max: 1 << 40 },
        "Memory for the newest part of the log",
        "consumers that keep up are served without reading the disk";
});

section!(Retention, "retention", "How long messages are kept" {
    age: Duration = "72h", times_ms(1_000, 3_650 * 86_400_000),
        "Age at which a file of the log may be deleted",
        "as in RocketMQ; a long weekend",
        converted("fileReservedTime", Conversion::Unit("h"));
    delete_hours: Vec<u8> = "04", Kind::Hours,
        "Hours of the day, in UTC, in which old files are deleted",
        "the quiet part of the day",
        same("deleteWhen");
    size: u64 = "0", Kind::Bytes { min: 0, max: 1 << 50 },
        "Bytes of the log above which the oldest files are deleted at any hour, whatever their age; 0 for no limit",
        "age and disk use decide, as in RocketMQ";
    check_interval: Duration = "10s", times_ms(100, 86_400_000),
        "How often age, size and disk use are looked at",
        "as in RocketMQ; a disk does not fill much faster",
        milliseconds("cleanResourceInterval");
    disk_used_percent: u32 = "75", PERCENT,
        "Disk use above which old files are deleted at any hour",
        "a quarter of the disk is left for a busy day",
        converted("diskMaxUsedSpaceRatio", Conversion::Clamped { min: 10, max: 95, unit: "" });
    force_enabled: bool = "true", Kind::Boolean,
        "Whether files may be deleted before their age when the disk is nearly full",
        "a broker that accepts messages is worth more than old ones, as in RocketMQ",
        same("cleanFileForciblyEnable");
    disk_force_percent: u32 = "85", PERCENT,
        "Disk use above which the oldest files are deleted whatever their age",
        "before the disk is full",
        same("diskSpaceCleanForciblyRatio");
    disk_refuse_percent: u32 = "90", PERCENT,
        "Disk use above which new messages are refused",
        "room is left to write offsets and to start again",
        same("diskSpaceWarningLevelRatio");
});
