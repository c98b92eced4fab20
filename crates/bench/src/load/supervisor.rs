//! Runs the threads of a load and watches them: a line a second, the broker's process, the wish to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::error::BenchError;
use crate::load::latency::{Latency, LatencySummary};
use crate::load::live::Live;
use crate::load::options::RunOptions;
use crate::load::progress::{ProgressSink, Second};
use crate::machine::clock::{Clock, SECOND_NS, ns_to_ms, ns_to_seconds, watch_pauses};
use crate::machine::process::{BrokerUsage, ProcessSample};

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What a run is watched with.
pub struct Supervisor<'a> {
    /// The run's clock.
    pub clock: Clock,
    /// What the threads tell.
    pub live: &'a Live,
    /// Who watches.
    pub sink: &'a dyn ProgressSink,
    /// How long the warm-up is, and which processes are the broker's.
    pub run: &'a RunOptions,
}

/// What is left when all threads have ended.
pub struct Watched<T> {
    /// What each thread returned.
    pub parts: Vec<T>,
    /// What was seen meanwhile.
    pub observed: Observed,
}

/// What was seen of the broker and the machine during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observed {
    /// What the broker's process used.
    pub broker: Option<BrokerUsage>,
    /// By how many milliseconds the machine was late to wake a thread that wanted nothing else, once a millisecond: what a broker
    /// on it can promise is not less.
    pub machine_pauses_ms: Option<LatencySummary>,
    /// Second by second.
    pub series: Vec<Second>,
}

/// Fails early if one of the broker's processes is not there to be looked at.
pub fn check_broker(pids: &[u32]) -> Result<(), BenchError> {
    match pids.iter().find(|&&pid| ProcessSample::take(pid).is_none()) {
        Some(pid) => Err(BenchError::WrongOption { name: "broker pid", problem: format!("there is no process {pid}") }),
        None => Ok(()),
    }
}

impl Supervisor<'_> {
    /// Runs `workers`, each on a thread of its own, until all have ended, and tells the sink that they have.
    pub fn watch<T: Send, W: FnOnce() -> T + Send>(&self, workers: Vec<W>) -> Watched<T> {
        let (is_over, pause_max_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let pauses = scope.spawn(|| self.watch_machine(&is_over, &pause_max_ns));
            let handles: Vec<_> = workers.into_iter().map(|worker| scope.spawn(worker)).collect();
            let mut series = Vec::new();
            let mut ticker = Ticker::new(self, &pause_max_ns);
            let mut first = None;
            while !handles.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(LOOK_INTERVAL);
                let now_ns = self.clock.now_ns();
                if first.is_none() && now_ns >= self.run.measure_from_ns() {
                    first = ProcessSample::take_all(&self.run.broker_pids);
                }
                if self.sink.stop_requested() {
                    self.live.request_stop();
                }
                series.extend(ticker.tick(now_ns, false));
            }
            series.extend(ticker.tick(self.clock.now_ns(), true));
            let last = ProcessSample::take_all(&self.run.broker_pids);
            let broker = first.zip(last).zip(self.run.broker_pids.first());
            let broker = broker.map(|((first, last), &pid)| {
                BrokerUsage::between(pid, &first, &last, ticker.own_max_mib, &self.run.broker_data)
            });
            // A thread that panicked has nothing to tell; the panic itself was printed.
            let parts = handles.into_iter().filter_map(|handle| handle.join().ok()).collect();
            is_over.store(true, Relaxed);
            self.sink.end();
            let machine_pauses_ms = pauses.join().ok().and_then(|pauses| pauses.summary());
            Watched { parts, observed: Observed { broker, machine_pauses_ms, series } }
        })
    }

    /// How late the machine wakes this thread, until the run is over; the longest since it was last asked is left in `max_ns`.
    fn watch_machine(&self, is_over: &AtomicBool, max_ns: &AtomicU64) -> Latency {
        let mut pauses = Latency::default();
        watch_pauses(
            self.clock,
            || is_over.load(Relaxed),
            |now_ns, late_ns| {
                max_ns.fetch_max(late_ns, Relaxed);
                if now_ns >= self.run.measure_from_ns() {
                    pauses.record(late_ns, 1);
                }
            },
        );
        pauses
    }
}

/// Closes one second after the other.
struct Ticker<'a> {
    supervisor: &'a Supervisor<'a>,
    pause_max_ns: &'a AtomicU64,
    begin_ns: u64,
    messages: u64,
    broker: Option<ProcessSample>,
    own_max_mib: f64,
}

impl<'a> Ticker<'a> {
    fn new(supervisor: &'a Supervisor<'a>, pause_max_ns: &'a AtomicU64) -> Self {
        let broker = ProcessSample::take_all(&supervisor.run.broker_pids);
        Self { supervisor, pause_max_ns, begin_ns: supervisor.clock.now_ns(), messages: 0, broker, own_max_mib: 0.0 }
    }

    /// The second that has ended by now. The last one may be short; a sliver is left out.
    fn tick(&mut self, now_ns: u64, last: bool) -> Option<Second> {
        let length_ns = now_ns - self.begin_ns;
        if length_ns < if last { SECOND_NS / 10 } else { SECOND_NS } {
            return None;
        }
        let taken = self.supervisor.live.take();
        let length = ns_to_seconds(length_ns);
        let broker = ProcessSample::take_all(&self.supervisor.run.broker_pids);
        let cpu = broker.zip(self.broker).map(|(now, before)| (now.cpu_seconds - before.cpu_seconds) / length * 100.0);
        let second = Second {
            at_seconds: ns_to_seconds(now_ns),
            warm_up: self.begin_ns < self.supervisor.run.measure_from_ns(),
            messages_per_second: taken.messages as f64 / length,
            refused: taken.refused,
            in_flight: taken.in_flight,
            latency_mean_ms: taken.latency_mean_ns.map(ns_to_ms),
            latency_max_ms: taken.latency_mean_ns.map(|_| ns_to_ms(taken.latency_max_ns)),
            machine_pause_max_ms: ns_to_ms(self.pause_max_ns.swap(0, Relaxed)),
            broker_cpu_percent: cpu,
            broker_resident_mib: broker.map(|broker| broker.resident_mib),
            broker_own_mib: broker.map(|broker| broker.own_mib),
        };
        let own_mib = second.broker_own_mib.filter(|_| !second.warm_up);
        self.own_max_mib = self.own_max_mib.max(own_mib.unwrap_or(0.0));
        self.messages += taken.messages;
        self.begin_ns = now_ns;
        self.broker = broker;
        self.supervisor.sink.second(&second, self.messages);
        Some(second)
    }
}
