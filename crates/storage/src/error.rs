//! What can go wrong with files, sorted by who must react.

use std::io;
use std::path::{Path, PathBuf};

use base::TopicName;

/// A failed storage operation. The text names the file and the remedy.
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
    /// There is no room for another segment, or too little by the retention settings.
    #[error("{0}")]
    DiskFull(String),
    /// A write or sync failed earlier: nothing more is accepted, since a retry could lie about lost pages.
    #[error("the log accepts no more writes since one failed ({0}); check the disk, then restart")]
    Poisoned(String),
    /// A file does not hold what it must hold.
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
    /// A record or snapshot of the broker's state cannot be taken in.
    #[error("{path}: {problem}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: format::state::StateError,
    },
    /// The bytes asked for are not in the page cache; ask again where waiting is allowed.
    #[error("the bytes are not in memory")]
    WouldBlock,
}

impl StorageError {
    /// Wraps a system error with what was being done to which file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the disk cannot read these bytes, ever: not a failure of the moment.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Io { action: "read", source, .. } if is_unreadable(source))
    }

    /// Whether the cause is a disk without room.
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

/// Whether a read failed for what lies there. Of Linux: EIO, ENODATA (a medium error), EBADMSG and EUCLEAN (a file system's
/// checksum), EILSEQ (a protection error).
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
