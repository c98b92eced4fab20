//! Delay levels: messages parked in one queue per level until they are due, and how far each level was delivered.
//!
//! A level is strictly first in, first out, and its entries keep the due time. How far each level is delivered is a change of state that
//! is appended together with the copies, behind them: whatever a crash takes from the log's end, progress never counts what has no copy.
//! Messages that were held are delivered again after a restart, and what came behind them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Monotonic, Now, QueueId, Timestamp, TopicName};
use format::index_rules::DELAY_TOPIC;
use format::queue_entry::Entry;
use format::state::StateChange;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{QueueIndex, StorageError, Store};

use crate::publish::published::Published;
use crate::state::{StateLog, documents};

/// How far the times that two threads have read may be apart.
const CLOCKS_APART_MS: u64 = 100;

/// Bounds that a level has at a time, about.
const BOUNDS_MAX: u64 = 256;

/// How far one level has been delivered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Next offset to deliver.
    next: u64,
    /// Messages below `next` that could not be delivered.
    held: BTreeMap<u64, Entry>,
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
#[derive(Clone, Debug)]
struct Bound {
    /// One past the last of them.
    below: u64,
    /// The first of them could go then,
    first_by: Monotonic,
    /// and all of them then.
    by: Monotonic,
}

impl Progress {
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Takes over what was delivered and held as `after` has it. Bounds may have come meanwhile, and stay.
    pub(crate) fn take_in(&mut self, after: Self) {
        self.next = after.next;
        self.held = after.held;
        self.held_tried_at = after.held_tried_at;
    }

    /// Everything below `next` is delivered, or held.
    pub(crate) const fn advance(&mut self, next: u64) {
        self.next = next;
    }

    /// The message at `place` is tried again later.
    pub(crate) fn hold(&mut self, place: u64, entry: Entry, now: Now) {
        if self.held.is_empty() {
            self.held_tried_at = Some(now.monotonic);
        }
        self.held.insert(place, entry);
    }

    /// A message that was held is delivered, or needs no copy.
    pub(crate) fn let_go(&mut self, place: u64) {
        self.held.remove(&place);
    }

    /// How many messages are held.
    pub(crate) fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Messages that are held and were not tried for longest, the oldest first; from the first again once all were tried.
    pub(crate) fn held_next(&self, count_max: usize) -> Vec<(u64, Entry)> {
        let from = |place| {
            let held = self.held.range(place..).take(count_max);
            held.map(|(&place, &entry)| (place, entry)).collect::<Vec<_>>()
        };
        let next = from(self.held_next);
        if next.is_empty() { from(0) } else { next }
    }

    /// What is held up to `place` was tried.
    pub(crate) const fn note_held_tried(&mut self, place: u64) {
        self.held_next = place + 1;
    }

    /// Below this everything is delivered. After a restart what comes behind it is delivered again.
    pub(crate) fn delivered(&self) -> u64 {
        self.held.first_key_value().map_or(self.next, |(&place, _)| self.next.min(place))
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
pub struct Delay {
    store: Arc<Store>,
    progress: Mutex<BTreeMap<usize, Progress>>,
    /// The latest time at which something was to be parked.
    latest: Mutex<Now>,
    /// Held from putting copies into the log until they are noted here.
    pub(crate) delivering: Mutex<()>,
    /// Whether the document lacks something.
    unexported: AtomicBool,
}

impl Delay {
    /// With how far each level is delivered. That may be of a log that was longer: then it is drawn back to the level's end before
    /// anything is parked there.
    pub(crate) fn open(delivered: &BTreeMap<u32, u64>, state: &StateLog, now: Now) -> Result<Self, StorageError> {
        let delay = Self {
            store: state.store().clone(),
            progress: Mutex::default(),
            latest: Mutex::default(),
            delivering: Mutex::default(),
            unexported: AtomicBool::new(true),
        };
        let mut drawn_back = Vec::new();
        for (&level, &delivered) in delivered {
            let end = delay.queue(level as usize).map_or(delivered, |queue| queue.appended_end().0);
            // A slave's log may not be as far yet as its master's tables.
            let end = if delay.store.follows() { delivered } else { end };
            if end < delivered {
                tracing::warn!(
                    level,
                    delivered,
                    end,
                    "the progress of a delay level was beyond its end; it is there now"
                );
                drawn_back.push(StateChange::Delay { level, delivered: end });
            }
            delay.at(level as usize, |progress| progress.advance(delivered.min(end)));
        }
        if !drawn_back.is_empty() {
            state.propose_at_start(drawn_back, now)?;
        }
        Ok(delay)
    }

    /// Where messages of a level are parked; `None` if there is no such level. Not as the catalog has it: the document of a foreign broker
    /// tells of as many levels as that has.
    pub(crate) fn queue(&self, level: usize) -> Option<Arc<QueueIndex>> {
        let is_level = (1..=self.level_count()).contains(&level);
        is_level.then(|| self.store.queue(&TopicName::trusted(DELAY_TOPIC), QueueId(level as u32 - 1)))
    }

    /// Looks at, or changes, how far a level is.
    pub(crate) fn at<T>(&self, level: usize, act: impl FnOnce(&mut Progress) -> T) -> T {
        act(self.progress.lock().entry(level).or_default())
    }

    /// Messages that are held, of all levels.
    pub(crate) fn held_count(&self) -> u64 {
        self.progress.lock().values().map(|progress| progress.held_count() as u64).sum()
    }

    /// How far each level is delivered.
    pub(crate) fn delivered(&self) -> BTreeMap<usize, u64> {
        self.progress.lock().iter().map(|(level, progress)| (*level, progress.delivered())).collect()
    }

    /// Takes over how far a slave's master has delivered.
    pub(crate) fn follow(&self, state: &StateLog, changes: Vec<StateChange>) {
        let _not_between = self.delivering.lock();
        state.note(changes.clone());
        for change in changes {
            if let StateChange::Delay { level, delivered } = change {
                self.at(level as usize, |progress| progress.advance(delivered));
            }
        }
        self.note_unexported();
    }

    /// More was delivered than the document says.
    pub(crate) fn note_unexported(&self) {
        self.unexported.store(true, Ordering::Release);
    }

    /// The document, if it has changed since it was last asked for here.
    pub(crate) fn take_to_export(&self, now: Now) -> Option<Value> {
        self.unexported.swap(false, Ordering::AcqRel).then(|| documents::delay(&self.delivered(), now))
    }

    /// Changes that lead to the progress of all levels. Waits for whoever delivers.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let _not_between = self.delivering.lock();
        let delivered = self.delivered().into_iter();
        delivered.map(|(level, delivered)| StateChange::Delay { level: level as u32, delivered }).collect()
    }

    /// How many levels there are.
    pub(crate) fn level_count(&self) -> usize {
        self.store.index_rules().delay_levels_ms().len()
    }

    /// The time by which what is parked now counts. A request that was on its way for long has an earlier one than what was parked before
    /// it: taken for a clock that was set back, that would make the others early.
    pub(crate) fn latest(&self, now: Now) -> Now {
        let mut latest = self.latest.lock();
        if now.monotonic >= latest.monotonic {
            *latest = now;
        }
        *latest
    }

    /// Messages of these numbers and levels were just parked. Their due times count from when they were stored, and after the clock
    /// was set back that is no earlier than the messages before them: they wait for their delay from now on, and no longer.
    pub(crate) fn bound_parked(&self, published: &Published, parked: &[(usize, usize)], now: Now) {
        if published.store_timestamp().ms_since(now.wall) <= CLOCKS_APART_MS {
            return;
        }
        for &(number, level) in parked {
            let (_, delay_ms) = self.store.index_rules().clip_level(level);
            for position in published.positions(number..number + 1) {
                let (end, by) = (position.queue_offset.0 + 1, now.monotonic.plus_ms(delay_ms));
                self.at(level, |progress| progress.bound_due(end, by, delay_ms));
            }
        }
    }

    /// How far each level is: (level, delivered, end).
    pub fn levels(&self) -> Vec<(usize, u64, u64)> {
        let told = |level| Some((level, self.at(level, |progress| progress.next()), self.queue(level)?.end().0));
        (1..=self.level_count()).filter_map(told).collect()
    }

    /// The delivery offsets as the document has them.
    pub fn document(&self) -> Value {
        json!({"offsetTable": self.delivered()})
    }
}

#[cfg(test)]
mod tests {
    use base::LogOffset;

    use super::*;

    fn entry() -> Entry {
        Entry { log_offset: LogOffset(0), size: 100, tag_code: 0 }
    }

    #[test]
    fn what_is_held_is_not_passed() {
        let mut level = Progress::default();
        level.hold(1, entry(), Now::default());
        level.hold(2, entry(), Now::default());
        level.advance(4);
        assert_eq!((level.delivered(), level.next()), (1, 4));
        level.let_go(1);
        assert_eq!((level.delivered(), level.held_count()), (2, 1));
        level.let_go(2);
        assert_eq!(level.delivered(), 4);
    }
}
