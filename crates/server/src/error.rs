//! Why the process did not start, or did not end well.

use std::fmt;
use std::io;

use storage::StorageError;

/// A failed start; the text names the setting, file or address and the remedy.
#[derive(Debug)]
pub enum StartError {
    /// A port could not be listened on.
    Listen {
        /// The address.
        address: String,
        /// The setting it comes from.
        setting: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The data directory could not be opened.
    Storage(StorageError),
    /// A setting that only the start can judge.
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A thread or runtime could not be made.
    Threads(io::Error),
    /// Signals could not be listened for.
    Signals(io::Error),
    /// A part of the process panicked while it ran.
    Panicked(String),
    /// One of several brokers cannot work.
    Broker {
        /// Its name.
        name: String,
        /// Why.
        source: Box<Self>,
    },
}

impl StartError {
    /// The same, with the broker's name if there are several.
    pub(crate) fn of(self, name: &str, several: bool) -> Self {
        if several { Self::Broker { name: name.to_owned(), source: Box::new(self) } } else { self }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, setting, source } => {
                write!(f, "cannot listen on {address} ({setting}): {source}")?;
                match source.kind() {
                    io::ErrorKind::AddrInUse => {
                        write!(f, "; stop the process that uses the port, or choose another with --set {setting}=PORT")
                    }
                    io::ErrorKind::PermissionDenied => {
                        write!(f, "; ports below 1024 need rights, choose another with --set {setting}=PORT")
                    }
                    _ => write!(f, "; check listen.host and {setting}"),
                }
            }
            Self::Storage(error) => error.fmt(f),
            Self::Setting { name, problem } => write!(f, "{name}: {problem}"),
            Self::Threads(error) => write!(f, "cannot start threads: {error}"),
            Self::Signals(error) => write!(f, "cannot listen for signals: {error}"),
            Self::Panicked(part) => {
                write!(f, "{part}: this is a fault of the program, and the log says where; start it again")
            }
            Self::Broker { name, source } => write!(f, "{name}: {source}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<StorageError> for StartError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
