//! What happens in the process, as it happens: a sample every two seconds, kept for a while and sent to whoever has a page open.
//!
//! **Always holds**: the same bytes go to all readers, so that a page more costs next to nothing; there are no more than [`READERS_MAX`];
//! one that does not read is hung up on; what walks large tables takes a five-hundredth of the time at most.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use base::Now;
use hyper::body::{Body, Frame};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::Sources;
use crate::admin::shown_broker;
use crate::history::{Counts, History, INTERVAL, Levels};

/// Pages that follow at one time.
pub(crate) const READERS_MAX: usize = 16;

/// Events that wait for a reader.
const EVENTS_WAITING_MAX: usize = 8;

/// Topics and groups that an event names.
const NAMED_MAX: usize = 8;

/// What walks large tables waits so many times as long as it took.
const REST: u64 = 500;

/// Ends a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct HangUp(pub(crate) Arc<Notify>);

#[derive(Debug)]
struct Reader {
    events: mpsc::Sender<Bytes>,
    hang_up: HangUp,
}

/// The groups that are furthest behind, and the busiest topics.
#[derive(Debug, Default)]
struct Standing {
    behind: Vec<(String, u64)>,
    lag: u64,
    busiest: Vec<(String, f64)>,
}

#[derive(Debug, Default)]
struct Following {
    history: History,
    state: Value,
    readers: Vec<Reader>,
}

/// Follows the process.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<Following>);

/// What one reader is sent, until it is hung up on or goes.
pub(crate) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Live {
    /// A reader more, which is sent all that is kept first; `None` if there are too many.
    pub(crate) fn follow(&self, hang_up: HangUp) -> Option<Events> {
        let mut following = self.0.lock();
        following.readers.retain(|reader| !reader.events.is_closed());
        if following.readers.len() >= READERS_MAX {
            return None;
        }
        let (events, received) = mpsc::channel(EVENTS_WAITING_MAX);
        let history = json!({"interval_ms": INTERVAL.as_millis() as u64, "samples": following.history.samples()});
        for event in [written("history", &history), written("state", &following.state)] {
            let _ = events.try_send(event);
        }
        following.readers.push(Reader { events, hang_up });
        Some(Events(received))
    }

    fn tell(&self, now: Now, counts: Counts, levels: Levels, state: Value) {
        let mut following = self.0.lock();
        let Following { history, readers, .. } = &mut *following;
        let sample = history.add(now, counts, levels);
        if !readers.is_empty() {
            let mut event = sample.map(|sample| written("sample", sample).to_vec()).unwrap_or_default();
            event.extend_from_slice(&written("state", &state));
            let event = Bytes::from(event);
            readers.retain(|reader| {
                let is_sent = reader.events.try_send(event.clone()).is_ok();
                if !is_sent {
                    reader.hang_up.0.notify_one();
                }
                is_sent
            });
        }
        following.state = state;
    }

    /// Looks at the process again and again.
    pub(crate) async fn keep(self: Arc<Self>, sources: Sources) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut standing = (Standing::default(), 0);
        loop {
            ticks.tick().await;
            let (live, sources) = (self.clone(), sources.clone());
            let looked = tokio::task::spawn_blocking(move || {
                let standing = stand(&sources, standing);
                let (counts, levels) = (counts(&sources), levels(&sources, &standing.0));
                let now = (sources.now)();
                live.tell(now, counts, levels, state(&sources, &standing.0, now));
                standing
            });
            // Where it has ended by a panic, that is in the log already.
            standing = looked.await.unwrap_or_default();
        }
    }
}

fn written(event: &str, data: &Value) -> Bytes {
    format!("event: {event}\ndata: {data}\n\n").into()
}

/// Looks who is behind and what is busy, unless it is too early for that; with it, when it is time for the next look.
fn stand(sources: &Sources, (known, next_ms): (Standing, u64)) -> (Standing, u64) {
    let begun = (sources.now)();
    if begun.monotonic.0 < next_ms {
        return (known, next_ms);
    }
    let mut behind = std::collections::BTreeMap::<_, u64>::new();
    let mut rates = std::collections::BTreeMap::<_, f64>::new();
    for broker in &sources.brokers {
        for (group, lag) in broker.snapshots.lag_by_group() {
            *behind.entry(group).or_default() += lag;
        }
        for topic in broker.catalog.topics() {
            let rate = broker.snapshots.put_rate(topic.name.as_str(), begun);
            if rate > 0.0 {
                *rates.entry(topic.name.to_string()).or_default() += rate;
            }
        }
    }
    let lag = behind.values().sum();
    let mut behind: Vec<_> = behind.into_iter().filter(|(_, lag)| *lag > 0).collect();
    behind.sort_by_key(|(_, lag)| std::cmp::Reverse(*lag));
    let mut busiest: Vec<_> = rates.into_iter().collect();
    busiest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    behind.truncate(NAMED_MAX);
    busiest.truncate(NAMED_MAX);
    let ended = (sources.now)().monotonic;
    (Standing { behind, lag, busiest }, ended.0 + ended.ms_since(begun.monotonic) * REST)
}

fn counts(sources: &Sources) -> Counts {
    let process = (sources.process)().unwrap_or_default();
    let mut counts = Counts { processor_ms: process.processor_ms, ..Counts::default() };
    for broker in &sources.brokers {
        let metrics = broker.metrics();
        counts.messages_in += metrics.messages_in.get();
        counts.messages_out += metrics.messages_out.get();
        counts.bytes_in += metrics.message_bytes_in.get();
        counts.bytes_out += metrics.message_bytes_out.get();
        counts.sends = counts.sends.plus(&broker.timings().publish.look());
    }
    counts
}

fn levels(sources: &Sources, standing: &Standing) -> Levels {
    let process = (sources.process)().unwrap_or_default();
    let now = (sources.now)();
    let disks = sources.brokers.iter().map(|broker| {
        let runtime = broker.snapshots.runtime(now);
        (runtime.disk_used_bytes, runtime.disk_total_bytes)
    });
    let share = |(used, total): &(u64, u64)| *used as f64 / (*total).max(1) as f64;
    let (disk_used_bytes, disk_total_bytes) = disks.max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or_default();
    Levels {
        lag: standing.lag,
        disk_used_bytes,
        disk_total_bytes,
        memory_bytes: process.memory_bytes,
        connections: sources.traffic.connections.get(),
    }
}

/// How the process is now.
fn state(sources: &Sources, standing: &Standing, now: Now) -> Value {
    let brokers: Vec<_> = sources.brokers.iter().map(|broker| shown_broker(broker, now)).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_ms": (sources.process)().map(|process| process.started_ms),
        "ending": sources.ending.get(),
        "brokers": brokers,
        "behind": standing.behind.iter().map(|(group, lag)| json!({"group": group, "lag": lag})).collect::<Vec<_>>(),
        "busiest": standing.busiest.iter()
            .map(|(topic, rate)| json!({"topic": topic, "messages_in_per_second": rate})).collect::<Vec<_>>(),
    })
}
