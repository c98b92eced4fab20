//! What ends by itself: messages whose time is over, those that are too many, queues that nobody uses.
//!
//! A queue looks at its head alone: what is behind a message that lives on is dealt with when its turn comes. What was rejected and could not
//! be given up then, as on a full disk, is its too.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use base::limits::SWEPT_AT_ONCE_MAX;
use base::{LogOffset, Monotonic, Now, QueueNumber, QueueOffset, Refusal, Timestamp};
use format::lane_code::{LaneCode, body_size};
use format::queue_entry::Entry;
use parking_lot::Mutex;
use storage::{ReadMode, StorageError};

use super::Model;
use super::change::OnlyIf;
use super::message_queue::{MessageQueue, QueueLane};
use crate::cursor::lane::Take;
use crate::cursor::lease::{Grant, Owner, Verdict};
use crate::cursor::weighing::Length;
use crate::cursor::window::Window;
use crate::error::internal;
use crate::leasing::{DoomReason, Doomed, Expiry};

/// How soon a queue is looked at again whose head lives on, or of which something could not be given up.
pub(super) const LOOK_AGAIN_MS: u64 = 1000;

/// How long a message that is over is left to who waits for it, and takes it or goes.
const AWAITED_MS: u64 = 1000;

/// Entries read at once at the head of a lane.
const LOOKED_AT_COUNT: usize = 64;

/// Times that a queue is swept in one go: others wait.
const SWEEPS_MAX: usize = 64;

/// Who has what a sweep gives up.
const SWEEP: Owner = Owner::grant(0).doom();

/// When which queue is to be looked at. Each is there once, by the earlier time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    messages: Mutex<Due<Timestamp>>,
    uses: Mutex<Due<Monotonic>>,
}

#[derive(Debug)]
struct Due<T> {
    at: BTreeMap<(T, QueueNumber), Weak<MessageQueue>>,
    of: BTreeMap<QueueNumber, T>,
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self { at: BTreeMap::new(), of: BTreeMap::new() }
    }
}

impl<T: Ord + Copy> Due<T> {
    fn put(&mut self, at: T, queue: &Arc<MessageQueue>) {
        let number = queue.number();
        if self.of.get(&number).is_some_and(|known| *known <= at) {
            return;
        }
        if let Some(later) = self.of.insert(number, at) {
            self.at.remove(&(later, number));
        }
        self.at.insert((at, number), Arc::downgrade(queue));
    }

    /// Takes out those whose time has come.
    fn take(&mut self, now: T) -> Vec<Arc<MessageQueue>> {
        let mut due = Vec::new();
        while let Some(first) = self.at.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), queue) = first.remove_entry();
            self.of.remove(&number);
            due.extend(queue.upgrade());
        }
        due
    }
}

impl Timers {
    /// Has a queue looked at when it may have been unused for too long.
    pub(super) fn watch_use(&self, queue: &Arc<MessageQueue>) {
        if let Some(expires) = queue.expires() {
            self.uses.lock().put(expires, queue);
        }
    }

    /// Has a queue looked at: a message of it may be over then.
    pub(super) fn watch_messages(&self, queue: &Arc<MessageQueue>, at: Timestamp) {
        self.messages.lock().put(at, queue);
    }
}

impl Model {
    /// Ends what has lasted long enough. To be called often; waits for the disk where there is something to end.
    pub fn sweep(&self, now: Now) {
        let due = self.timers.messages.lock().take(now.wall);
        for queue in due {
            if let Err(refusal) = self.sweep_queue(&queue, now) {
                tracing::warn!(%refusal, queue = %super::error::Shown(queue.name()), "old messages cannot be removed; it is tried again");
                self.timers.watch_messages(&queue, now.wall.plus_ms(LOOK_AGAIN_MS));
            }
        }
        let unused = self.timers.uses.lock().take(now.monotonic);
        for queue in unused {
            let is_over = queue.expires().is_some_and(|expires| expires <= now.monotonic);
            let Ok(host) = self.host(queue.host()) else { continue };
            if queue.is_gone() {
                continue;
            }
            let only_unused = OnlyIf { unused: true, ..OnlyIf::default() };
            if !is_over || self.remove_queue(&host, &queue, only_unused, now).is_err() {
                queue.note_used_if(queue.consumer_count() > 0, now.monotonic);
                self.timers.watch_use(&queue);
            }
        }
    }

    /// Deals with what is over or too much at the head of a queue. Waits for the disk.
    pub fn sweep_queue(&self, queue: &Arc<MessageQueue>, now: Now) -> Result<(), Refusal> {
        if queue.is_gone() {
            return Ok(());
        }
        let mut has_more = true;
        for _ in 0..SWEEPS_MAX {
            has_more = self.sweep_heads(queue, now)?;
            if !has_more {
                break;
            }
        }
        let (excess, is_weighed) = queue.excess().map_err(internal)?;
        let is_next = has_more || !is_weighed || !excess.is_none();
        let next = if is_next { Some(now.wall) } else { self.next_look(queue, now)? };
        if let Some(next) = next {
            self.timers.watch_messages(queue, next);
        }
        Ok(())
    }

    /// Deals with some of what is over or too much. Gives whether there may be more that can be dealt with now; an error if a lane cannot be
    /// read, once the others are dealt with.
    fn sweep_heads(&self, queue: &Arc<MessageQueue>, now: Now) -> Result<bool, Refusal> {
        let mut doomed = Vec::new();
        let expired = doom_expired(queue, &mut doomed, now);
        let too_many = doom_excess(queue, &mut doomed, now);
        // The last, so that they are in the way of nobody if they fail again.
        for lane in queue.queue_lanes() {
            doomed.extend(Doomed::postponed(&lane.lane, SWEEP, SWEPT_AT_ONCE_MAX));
        }
        let has_more = doomed.len() >= SWEPT_AT_ONCE_MAX;
        let is_done = self.give_up(queue, doomed, now);
        expired.and(too_many).map(|()| has_more && is_done)
    }

    /// When the head of some lane is over.
    fn next_look(&self, queue: &MessageQueue, now: Now) -> Result<Option<Timestamp>, Refusal> {
        let mut next: Option<Timestamp> = None;
        for QueueLane { index, lane, .. } in queue.queue_lanes() {
            let end = index.end();
            let entry = match lane.with(|cursor| cursor.lowest_ready(end)) {
                Some((first, _)) => index.entry(first).map_err(internal)?,
                // What comes back may be over by then, or too much.
                None if lane.counts().leased + lane.counts().delayed > 0 => None,
                None => continue,
            };
            let at = match entry.and_then(|entry| LaneCode::of(&entry).expiry) {
                // More may have come back.
                Some(expiry) if queue.rules().has_length_limit() => expiry.min(now.wall.plus_ms(LOOK_AGAIN_MS)),
                Some(expiry) => expiry,
                // Behind it there may be others.
                None if queue.is_swept() => now.wall.plus_ms(LOOK_AGAIN_MS),
                None => continue,
            };
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        Ok(next)
    }
}

/// Takes what is over at the heads of all lanes.
fn doom_expired(queue: &MessageQueue, doomed: &mut Vec<Doomed>, now: Now) -> Result<(), Refusal> {
    let is_given_up = queue.rules().dead_letter_exchange.is_some();
    let mut outcome = Ok(());
    for lane in queue.queue_lanes() {
        // Whoever waits there takes what comes at once, also if that is over with the same millisecond.
        let grace_ms = if lane.lane.is_waited_for() { AWAITED_MS } else { 0 };
        let expiry = Expiry { now: Timestamp(now.wall.0.saturating_sub(grace_ms)), awaited_since: None, is_given_up };
        let is_over = |entry: &Entry| expiry.is_over(entry, 0);
        match take_head(&lane, is_over, is_given_up, DoomReason::Expired, now) {
            Ok(over) => doomed.extend(over),
            Err(refusal) => outcome = outcome.and(Err(refusal)),
        }
    }
    outcome
}

/// Takes what is too much, beside what is taken already: those of the lowest priority first.
fn doom_excess(queue: &MessageQueue, doomed: &mut Vec<Doomed>, now: Now) -> Result<(), Refusal> {
    let is_given_up = queue.rules().dead_letter_exchange.is_some();
    let (mut excess, _) = queue.excess().map_err(internal)?;
    for lane in queue.queue_lanes().into_iter().rev() {
        // As long as there may be more of one lane, or it cannot be read, it is not the next one's turn.
        if excess.is_none() || doomed.len() >= SWEPT_AT_ONCE_MAX {
            break;
        }
        let mut left = excess;
        let mut is_wanted = |entry: &Entry| {
            let is_wanted = !left.is_none();
            left = left.less(Length { count: 1, size: body_size(entry) });
            is_wanted
        };
        doomed.extend(take_head(&lane, &mut is_wanted, is_given_up, DoomReason::TooMany, now)?);
        excess = left;
    }
    Ok(())
}

/// Takes messages from the head of a lane for as long as `is_wanted`: for their dead letters, or for good.
fn take_head(
    QueueLane { index, lane, .. }: &QueueLane,
    mut is_wanted: impl FnMut(&Entry) -> bool,
    is_given_up: bool,
    reason: DoomReason,
    now: Now,
) -> Result<Vec<Doomed>, Refusal> {
    let take = Take { grant: Grant::without_end(SWEEP), attempt: None, held: None, now: now.monotonic };
    let (mut doomed, mut window) = (Vec::<(QueueOffset, u32)>::new(), Window::default());
    let failure = loop {
        let mut failure = None;
        lane.take(take, |offset, deliveries| match window.entry(index, offset, LOOKED_AT_COUNT) {
            // Its place is gone, or its message: it was lost. Where messages are too many it is one less.
            Ok(entry) if entry.is_none_or(|entry| !entry.has_record()) => {
                is_wanted(&entry.unwrap_or(Entry::lost(LogOffset(0))));
                Verdict::Settle
            }
            Ok(Some(entry)) if is_wanted(&entry) => {
                if !is_given_up {
                    return Verdict::Settle;
                }
                if doomed.len() >= SWEPT_AT_ONCE_MAX {
                    return Verdict::Stop;
                }
                doomed.push((offset, deliveries));
                Verdict::Lease
            }
            Ok(_) => Verdict::Stop,
            Err(error) => {
                failure = Some((offset, error));
                Verdict::Stop
            }
        });
        let Some((offset, error)) = failure else { break None };
        // Not with the lane locked: others take and settle there meanwhile.
        let outcome = match error {
            StorageError::WouldBlock => window.read(index, offset, LOOKED_AT_COUNT, ReadMode::MayWait),
            error => Err(error),
        };
        if let Err(error) = outcome {
            break Some(error);
        }
    };
    let doomed = doomed.into_iter().map(|(offset, deliveries)| Doomed {
        lane: lane.clone(),
        owner: SWEEP,
        offset,
        deliveries,
        reason,
    });
    let doomed = doomed.collect::<Vec<_>>();
    match failure {
        Some(error) if doomed.is_empty() => Err(internal(error)),
        _ => Ok(doomed),
    }
}
