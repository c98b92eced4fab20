//! Errors that end the process. Each text names the setting, file or address and what to do.

use std::io;

use storage::StorageError;

/// Why the process did not start, or stopped with an error.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port could not be listened on.
    #[error("cannot listen on {address} ({setting}): {source}{}", remedy(.source, .setting))]
    Listen {
        /// The address.
        address: String,
        /// The setting it comes from.
        setting: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The data directory could not be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A setting whose value turns out wrong only at the start.
    #[error("{name}: {problem}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A thread or runtime could not be started.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    /// Signals could not be listened for.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// A part of the process panicked while it ran.
    #[error("{0}: this is a fault of the program, and the log says where; start it again")]
    Panicked(String),
    /// An error of one of several brokers.
    #[error("{name}: {source}")]
    Broker {
        /// Its name.
        name: String,
        /// Why.
        source: Box<Self>,
    },
}

impl StartError {
    /// Adds the broker's name, if there are several.
    pub(crate) fn of(self, name: &str, several: bool) -> Self {
        if several { Self::Broker { name: name.to_owned(), source: Box::new(self) } } else { self }
    }
}

fn remedy(error: &io::Error, setting: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("; stop the process that uses the port, or choose another with --set {setting}=PORT")
        }
        io::ErrorKind::PermissionDenied => {
            format!("; ports below 1024 need rights, choose another with --set {setting}=PORT")
        }
        _ => format!("; check listen.host and {setting}"),
    }
}
