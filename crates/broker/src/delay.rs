//! Delay levels: messages parked in one queue per level until they are due, and how far each level was delivered.
//!
//! A level is strictly first in, first out, and its entries keep the due time. How far each level has been delivered is
//! written to `delayOffset.json` in the background, but never beyond copies that are on the disk: after a crash, whatever it takes
//! from the log's end, some messages may be delivered again, none is lost. A power cut may take the end of a level, so what was
//! delivered never counts beyond it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{LogOffset, Monotonic, Now, QueueId, Refusal, Timestamp, TopicName};
use format::document::TopicDocument;
use format::index_rules::DELAY_TOPIC;
use format::queue_entry::Entry;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{StorageError, Store};

use crate::broker::Broker;
use crate::catalog::{Catalog, Topic};
use crate::published::Published;

const FILE: &str = "delayOffset.json";

/// How far the times that two threads have read may be apart.
const CLOCKS_APART_MS: u64 = 100;

/// Bounds that a level has at a time, about.
const BOUNDS_MAX: u64 = 256;

/// How far one level has been delivered.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Next offset to deliver.
    next: u64,
    /// Everything below was delivered, and the copies are on the disk.
    kept: u64,
    /// What was delivered since: where the copies end in the log, and the next offset behind what they are copies of.
    pending: VecDeque<(LogOffset, u64)>,
    /// Messages below `next` that could not be delivered.
    held: BTreeMap<u64, Held>,
    /// A clock that was set back: what is parked below an offset is due by then, whatever its due time. Offsets and times rise.
    bounds: VecDeque<Bound>,
    /// Since when the level rests after it failed.
    failed_at: Option<Monotonic>,
    /// When those that are held were last tried.
    held_tried_at: Option<Monotonic>,
    /// The first that is held and was not among those tried last, so that each is tried.
    held_next: u64,
}

/// By when messages are due whatever their due time.
#[derive(Debug)]
struct Bound {
    /// One past the last of them.
    below: u64,
    /// The first of them could go then,
    first_by: Monotonic,
    /// and all of them then.
    by: Monotonic,
}

/// A message that could not be delivered when it was due.
#[derive(Debug)]
struct Held {
    entry: Entry,
    /// Where its copy ends in the log, once there is one.
    delivered: Option<LogOffset>,
}

impl Progress {
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Everything below `next` is delivered by copies that end at `end`.
    pub(crate) fn advance(&mut self, next: u64, end: Option<LogOffset>) {
        // Without a copy there is only what was before to wait for.
        let end = end.or(self.pending.back().map(|(end, _)| *end)).unwrap_or_default();
        self.pending.push_back((end, next));
        self.next = next;
    }

    /// The message at `place` is tried again later.
    pub(crate) fn hold(&mut self, place: u64, entry: Entry, now: Now) {
        if self.held.is_empty() {
            self.held_tried_at = Some(now.monotonic);
        }
        self.held.insert(place, Held { entry, delivered: None });
    }

    /// A message that was held is delivered by a copy that ends at `end`, or needs none.
    pub(crate) fn let_go(&mut self, place: u64, end: Option<LogOffset>) {
        if let Some(held) = self.held.get_mut(&place) {
            held.delivered = Some(end.unwrap_or_default());
        }
    }

    /// How many messages are held.
    pub(crate) fn held_count(&self) -> usize {
        self.held.values().filter(|held| held.delivered.is_none()).count()
    }

    /// Messages that are held and were not tried for longest, the oldest first; from the first again once all were tried.
    pub(crate) fn held_next(&self, count_max: usize) -> Vec<(u64, Entry)> {
        let from = |place| {
            let held = self.held.range(place..).filter(|(_, held)| held.delivered.is_none());
            held.take(count_max).map(|(&place, held)| (place, held.entry)).collect::<Vec<_>>()
        };
        let next = from(self.held_next);
        if next.is_empty() { from(0) } else { next }
    }

    /// What is held up to `place` was tried.
    pub(crate) const fn note_held_tried(&mut self, place: u64) {
        self.held_next = place + 1;
    }

    /// How far it may be remembered: never beyond a copy that is not below `durable`.
    fn remembered(&mut self, durable: LogOffset) -> u64 {
        while let Some((_, next)) = self.pending.pop_front_if(|(end, _)| *end <= durable) {
            self.kept = next;
        }
        self.held.retain(|_, held| held.delivered.is_none_or(|end| end > durable));
        self.held.first_key_value().map_or(self.kept, |(&place, _)| self.kept.min(place))
    }

    /// How long the message at `place` still waits, whose due time is `due`.
    pub(crate) fn wait_ms(&self, place: u64, due: Timestamp, now: Now) -> u64 {
        let wait_ms = due.ms_since(now.wall);
        self.bound(place).map_or(wait_ms, |by| wait_ms.min(by.ms_since(now.monotonic)))
    }

    /// By when the message at `place` is due because the clock was set back.
    pub(crate) fn bound(&self, place: u64) -> Option<Monotonic> {
        self.bounds.iter().find(|bound| place < bound.below).map(|bound| bound.by)
    }

    /// The clock was set back: nothing that is parked below `end` waits longer than until `by`, which is `delay_ms` from now.
    /// Bounds close to each other become one, which makes messages late by `delay_ms / BOUNDS_MAX` at most.
    pub(crate) fn bound_due(&mut self, end: u64, by: Monotonic, delay_ms: u64) {
        let next = self.next;
        self.bounds.retain(|bound| bound.below > next);
        match self.bounds.back_mut() {
            Some(last) if end <= last.below || by.ms_since(last.first_by) <= delay_ms / BOUNDS_MAX => {
                last.below = last.below.max(end);
                last.by = last.by.max(by);
            }
            _ => self.bounds.push_back(Bound { below: end, first_by: by, by }),
        }
    }

    /// Notes how a pass ended; gives whether the pass before ended otherwise.
    pub(crate) fn note_pass(&mut self, failed_at: Option<Monotonic>) -> bool {
        let before = std::mem::replace(&mut self.failed_at, failed_at);
        before.is_some() != failed_at.is_some()
    }

    /// Whether the level failed less than `rest_ms` ago.
    pub(crate) fn rests(&self, now: Now, rest_ms: u64) -> bool {
        self.failed_at.is_some_and(|since| now.monotonic.ms_since(since) < rest_ms)
    }

    /// Whether those that are held are to be tried, every `rest_ms`.
    pub(crate) fn tries_held(&mut self, now: Now, rest_ms: u64) -> bool {
        let waits = self.held_tried_at.is_some_and(|since| now.monotonic.ms_since(since) < rest_ms);
        if !waits {
            self.held_tried_at = Some(now.monotonic);
        }
        !waits
    }
}

/// Delivery of parked messages.
#[derive(Debug)]
pub(crate) struct Delay {
    progress: Mutex<BTreeMap<usize, Progress>>,
    /// What the document says. Held while it is written: an older table never replaces a newer one, and who finds nothing new knows
    /// it is written.
    saved: Mutex<BTreeMap<usize, u64>>,
}

impl Delay {
    pub(crate) fn open(store: &Store, catalog: &Catalog) -> Result<Self, StorageError> {
        let (mut progress, mut saved) = (BTreeMap::new(), BTreeMap::new());
        if let Some(value) = store.read_document(FILE)? {
            for (level, offset) in value.get("offsetTable").and_then(Value::as_object).into_iter().flatten() {
                if let (Ok(level), Some(offset)) = (level.parse::<usize>(), offset.as_u64()) {
                    let queue = QueueId(level.saturating_sub(1) as u32);
                    let end = catalog.end_of(DELAY_TOPIC, queue).unwrap_or_default();
                    let kept = offset.min(end.0);
                    progress.insert(level, Progress { next: kept, kept, ..Progress::default() });
                    saved.insert(level, offset);
                }
            }
        }
        Ok(Self { progress: Mutex::new(progress), saved: Mutex::new(saved) })
    }

    /// Looks at, or changes, how far a level is.
    pub(crate) fn at<T>(&self, level: usize, act: impl FnOnce(&mut Progress) -> T) -> T {
        act(self.progress.lock().entry(level).or_default())
    }

    /// Messages that are held, of all levels.
    pub(crate) fn held_count(&self) -> u64 {
        self.progress.lock().values().map(|progress| progress.held_count() as u64).sum()
    }

    /// How far each level may be remembered, by level.
    fn remembered(&self, store: &Store) -> BTreeMap<usize, u64> {
        // A copy that is not committed may yet be taken back.
        let durable = store.watermarks().durable().min(store.watermarks().committed());
        self.progress.lock().iter_mut().map(|(level, progress)| (*level, progress.remembered(durable))).collect()
    }

    pub(crate) fn save(&self, store: &Store, now: Now) -> Result<(), StorageError> {
        let mut saved = self.saved.lock();
        let table = self.remembered(store);
        if table == *saved {
            return Ok(());
        }
        let text = json!({
            "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": now.wall.0},
            "offsetTable": table,
        });
        store.write_document(FILE, &text.to_string())?;
        *saved = table;
        Ok(())
    }
}

impl Broker {
    /// How many levels there are.
    pub(crate) fn delay_level_count(&self) -> usize {
        self.store().index_rules().delay_levels_ms().len()
    }

    /// The topic of parked messages.
    pub(crate) fn delay_topic(&self, now: Now) -> Result<Arc<Topic>, Refusal> {
        let levels = self.delay_level_count() as u32;
        match self.catalog().topic(DELAY_TOPIC) {
            Some(topic) if topic.queues.len() as u32 >= levels => Ok(topic),
            _ => {
                let settings =
                    TopicDocument { read_queue_nums: levels, write_queue_nums: levels, ..TopicDocument::default() };
                self.catalog().put_topic(self.store(), TopicName::trusted(DELAY_TOPIC), settings, now)
            }
        }
    }

    /// Messages of these numbers and levels were just parked. Their due times count from when they were stored, and after the clock
    /// was set back that is no earlier than the messages before them: they wait for their delay from now on, and no longer.
    pub(crate) fn bound_parked(&self, published: &Published, parked: &[(usize, usize)], now: Now) {
        if published.store_timestamp().ms_since(now.wall) <= CLOCKS_APART_MS {
            return;
        }
        for &(number, level) in parked {
            let (_, delay_ms) = self.store().index_rules().clip_level(level);
            for position in published.positions(number..number + 1) {
                let (end, by) = (position.queue_offset.0 + 1, now.monotonic.plus_ms(delay_ms));
                self.delay.at(level, |progress| progress.bound_due(end, by, delay_ms));
            }
        }
    }

    /// How far each level is: (level, delivered, end).
    pub fn delay_progress(&self) -> Vec<(usize, u64, u64)> {
        let Some(topic) = self.catalog().topic(DELAY_TOPIC) else { return Vec::new() };
        (1..=self.delay_level_count())
            .filter_map(|level| {
                let queue = topic.queue(QueueId(level as u32 - 1)).ok()?;
                Some((level, self.delay.at(level, |progress| progress.next()), queue.end().0))
            })
            .collect()
    }

    /// The delivery offsets as the document has them.
    pub fn delay_document(&self) -> Value {
        json!({"offsetTable": self.delay.remembered(self.store())})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { log_offset: LogOffset(0), size: 100, tag_code: 0 }
    }

    #[test]
    fn nothing_is_remembered_before_its_copies_are_on_the_disk() {
        let mut level = Progress::default();
        level.advance(3, Some(LogOffset(300)));
        // Damaged messages: no copies of their own, but those of the messages before them.
        level.advance(5, None);
        level.advance(6, Some(LogOffset(400)));
        assert_eq!([0, 299, 300, 399, 400].map(|durable| level.remembered(LogOffset(durable))), [0, 0, 5, 5, 6]);
        level.advance(7, None);
        assert_eq!((level.remembered(LogOffset(0)), level.next()), (7, 7));
    }

    #[test]
    fn what_is_held_is_not_passed_before_its_own_copy_is_on_the_disk() {
        let mut level = Progress::default();
        level.hold(1, entry(), Now::default());
        level.hold(2, entry(), Now::default());
        level.advance(4, Some(LogOffset(400)));
        assert_eq!(level.remembered(LogOffset(400)), 1);
        level.let_go(1, Some(LogOffset(500)));
        assert_eq!((level.remembered(LogOffset(499)), level.held_count()), (1, 1));
        assert_eq!(level.remembered(LogOffset(500)), 2);
        level.let_go(2, None);
        assert_eq!(level.remembered(LogOffset(500)), 4);
    }
}
