//! Errors of the storage crate. Each text names the file and what to do.

use std::io;
use std::path::{Path, PathBuf};

use base::{LogOffset, TopicName};

/// A failed storage operation.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused a file operation.
    #[error("cannot {action} {path}: {source}{}", remedy(.source))]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process has the data directory.
    #[error(
        "the data directory {0} is in use by another process; stop that one, or choose another directory with --data DIR (storage.directory, or storage.dirs)"
    )]
    Locked(PathBuf),
    /// The disk has no space for a segment or a checkpoint, or is fuller than the retention settings allow.
    #[error("{0}")]
    DiskFull(String),
    /// A write or sync failed earlier. It is not tried again: the kernel may have dropped the pages, and a retry would succeed.
    #[error("the log accepts no more writes since one failed ({0}); check the disk, then restart")]
    Poisoned(String),
    /// The contents of a file are invalid.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A record is larger than a segment.
    #[error(
        "a record of {size} bytes does not fit a log segment ({limit} bytes); raise storage.segment_size or lower message.size_max"
    )]
    RecordTooLarge {
        /// Bytes of the record.
        size: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// The topic of a message was removed before the message was appended.
    #[error(
        "the topic {0} was removed before the message was stored, and what was sent with it is not stored either; send again, to a topic that exists"
    )]
    TopicRemoved(TopicName),
    /// The log is a copy of a leader's.
    #[error("this broker is a slave: messages are stored, and topics and groups changed, at its master")]
    Follows,
    /// A log cannot begin there.
    #[error(
        "a log that ends at {end} cannot begin at {offset}: only one that keeps nothing can, there or later, at a multiple of its segment size {segment_size} (storage.segment_size), which has to be the master's"
    )]
    CannotBegin {
        /// Where it was to begin.
        offset: LogOffset,
        /// Where it ends.
        end: LogOffset,
        /// Bytes of a segment.
        segment_size: u64,
    },
    /// What was asked for is removed.
    #[error("the log begins at {first} by now, and what was at {start} is removed")]
    BeforeLog {
        /// Where it would begin.
        start: LogOffset,
        /// Where the log begins.
        first: LogOffset,
    },
    /// Bytes of another log do not begin where this one ends.
    #[error("bytes of the leader's log from {start} on cannot be appended: this log ends at {end}")]
    NotAtEnd {
        /// Where they begin.
        start: LogOffset,
        /// Where they would have to.
        end: LogOffset,
    },
    /// Bytes of another log are not what belongs there.
    #[error("what the leader's log has at {offset} cannot be appended: {problem}")]
    NotOfThisLog {
        /// The log offset.
        offset: LogOffset,
        /// What is wrong with it.
        problem: String,
    },
    /// Something committed would be taken back.
    #[error(
        "the log cannot end at {offset}: everything below {committed} is committed; this replica's data has to be copied anew from the leader"
    )]
    Committed {
        /// Where it was to end.
        offset: LogOffset,
        /// What must stay.
        committed: LogOffset,
    },
    /// What is to be done takes in records that are not committed yet.
    #[error("records that were written are not committed yet; it is tried again once the replicas have them")]
    Uncommitted,
    /// A record or snapshot of the broker's state cannot be taken in.
    #[error("{path}: {problem}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: format::state::StateError,
    },
    /// The bytes are not in the page cache; repeat with `ReadMode::MayWait`.
    #[error("the bytes are not in memory")]
    WouldBlock,
}

impl StorageError {
    /// Adds to a system error what was being done to which file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the disk can no longer read these bytes, so that a retry is of no use.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Io { action: "read", source, .. } if is_unreadable(source))
    }

    /// Whether the disk failed, in whatever was asked of it.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_unreadable(source))
    }

    /// Whether there is no such file, or it ends before what was to be read.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof))
    }

    /// Whether the cause is a full disk or quota.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull(_) => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// Whether a read failed because of the bytes there. On Linux: EIO, ENODATA (medium error), EBADMSG and EUCLEAN (checksum of the file
/// system), EILSEQ (protection information).
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 61 | 74 | 84 | 117))
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; give this user write access to it, or choose another directory with --data DIR (storage.directory, or storage.dirs)"
        }
        io::ErrorKind::NotADirectory => {
            "; choose another directory with --data DIR (storage.directory, or storage.dirs)"
        }
        io::ErrorKind::StorageFull => "; free space on that disk",
        _ => "",
    }
}
