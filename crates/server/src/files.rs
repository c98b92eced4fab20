//! Who may have how many of the files that the process may have open.
//!
//! A connection takes one, and so does each file of a store in use. Connections are kept from taking the last: a store that
//! cannot open its next segment would refuse every message.

use base::limits::FILES_OF_STORE;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the process itself: its output, its listeners, what it registers by, what its threads are woken by.
const FILES_OF_PROCESS: u64 = 32;

/// Connections to the console, where there are files enough.
const CONSOLE_CONNECTIONS_MAX: u64 = 64;

/// Shares of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileShares {
    /// Connections of clients and brokers.
    pub(crate) connections: u64,
    /// Connections to the console.
    pub(crate) console: u64,
    /// Files of queues that each store keeps open, if those are fewer than it would like.
    pub(crate) queues_of_store: u64,
}

impl FileShares {
    /// Divides `limit` files: half of a small limit is the stores'.
    pub(crate) fn of(limit: u64, stores: u64) -> Self {
        let kept = (FILES_OF_PROCESS + FILES_OF_STORE * stores).min(limit / 2);
        let rest = limit - kept;
        let console = (rest / 8).clamp(1, CONSOLE_CONNECTIONS_MAX);
        let queues_of_store = kept.saturating_sub(FILES_OF_PROCESS) / (2 * stores.max(1));
        Self { connections: rest.saturating_sub(console).max(1), console, queues_of_store: queues_of_store.max(4) }
    }
}

/// As many open files as the system allows without asking; returns how many that is.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_each_store_its_files() {
        for (limit, stores) in [(64, 1), (100, 0), (1024, 1), (1024, 3), (100_000, 2), (1 << 20, 4)] {
            let shares = FileShares::of(limit, stores);
            let left = limit - shares.connections - shares.console;
            assert!(left >= (FILES_OF_STORE * stores + FILES_OF_PROCESS).min(limit / 2), "{limit}: {shares:?}");
            assert!(shares.connections >= limit / 4, "{limit}: {shares:?}");
            assert!((1..=64).contains(&shares.console));
        }
        assert!(FileShares::of(1 << 20, 1).connections > 1_000_000);
        assert!(FileShares::of(1 << 20, 1).queues_of_store > 256);
        assert_eq!(FileShares::of(u64::MAX, 1).console, 64);
    }
}
