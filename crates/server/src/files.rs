//! Divides the limit of open files (`ulimit -n`) between connections and stores.
//!
//! Connections must not use it up: a store that cannot open its next segment refuses all messages.

use base::limits::FILES_OF_STORE;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the process itself: standard streams, listeners, connections to name servers, epoll and event descriptors.
const FILES_OF_PROCESS: u64 = 32;

const CONSOLE_CONNECTIONS_MAX: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileShares {
    pub(crate) connections: u64,
    pub(crate) console: u64,
    /// Most queue files that each store keeps open.
    pub(crate) queues_of_store: u64,
}

impl FileShares {
    /// Divides `limit` files. Of a small limit the stores get half.
    pub(crate) fn of(limit: u64, stores: u64) -> Self {
        let kept = (FILES_OF_PROCESS + FILES_OF_STORE * stores).min(limit / 2);
        let rest = limit - kept;
        let console = (rest / 8).clamp(1, CONSOLE_CONNECTIONS_MAX);
        let queues_of_store = kept.saturating_sub(FILES_OF_PROCESS) / (2 * stores.max(1));
        Self { connections: rest.saturating_sub(console).max(1), console, queues_of_store: queues_of_store.max(4) }
    }
}

/// Raises the limit of open files as far as the system allows. Returns the limit.
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
