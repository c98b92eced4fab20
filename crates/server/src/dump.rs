//! On a signal, logs the state of the process: its threads and all metrics.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::metric::{Row, Traffic};
use broker::Broker;

/// Ticks per second of processor time in `/proc` (`USER_HZ`, 100 on all common architectures).
const TICKS_PER_SECOND: u64 = 100;

#[derive(Clone)]
pub(crate) struct Dump {
    pub(crate) started: Instant,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) brokers: Vec<Arc<Broker>>,
}

impl Dump {
    /// Logs on a blocking thread, since it reads `/proc`.
    pub(crate) fn start(&self) {
        let dump = self.clone();
        tokio::task::spawn_blocking(move || dump.log());
    }

    fn log(&self) {
        let threads = threads();
        tracing::info!(up_seconds = self.started.elapsed().as_secs(), threads = threads.len(), "state of the process");
        for Thread { id, name, state, used } in threads {
            let (state, used_ms) = (state.to_string(), used.as_millis() as u64);
            tracing::info!(id, name, state, used_ms, "state of a thread");
        }
        tracing::info!("figures of the process: {}", text(&self.traffic.rows()));
        for broker in &self.brokers {
            let problem = broker.durability.poisoned().map(|refusal| refusal.to_string()).unwrap_or_default();
            let name = &broker.options().broker_name;
            tracing::info!(name, problem, "figures of the broker: {}", text(&broker.metrics().rows()));
        }
    }
}

fn text(rows: &[Row]) -> String {
    let figures: Vec<_> =
        rows.iter().map(|row| format!("{}={}", row.name.trim_start_matches("sluice_"), row.text())).collect();
    figures.join(" ")
}

#[derive(Debug, PartialEq, Eq)]
struct Thread {
    id: u64,
    name: String,
    /// As in `ps`: R runs, S sleeps, D waits for a disk.
    state: char,
    /// Processor time.
    used: Duration,
}

fn threads() -> Vec<Thread> {
    let folders = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stat = |folder: fs::DirEntry| fs::read_to_string(folder.path().join("stat")).ok();
    let mut threads: Vec<_> = folders.filter_map(stat).filter_map(|stat| thread(&stat)).collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// Parses `/proc/self/task/ID/stat`: id, name in brackets, state; fields 14 and 15 are user and system time.
fn thread(stat: &str) -> Option<Thread> {
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Thread {
        id: id.parse().ok()?,
        name: name.to_owned(),
        state: rest.chars().next()?,
        used: Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS_PER_SECOND),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_from_the_kernels_line_whatever_its_name() {
        let stat = "4711 (log) (x) S 1 4711 4711 0 -1 4194368 1 0 0 0 25 17 0 0 20 0 12 0 13127 9 8";
        let expected = Thread { id: 4711, name: "log) (x".to_owned(), state: 'S', used: Duration::from_millis(420) };
        assert_eq!(thread(stat), Some(expected));
        assert_eq!(thread("4711 (log"), None);
        assert!(threads().iter().any(|thread| thread.state == 'R'), "this one runs");
    }
}
