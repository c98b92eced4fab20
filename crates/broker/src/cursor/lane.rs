//! A group's lease cursor in a queue, with what is around it: what the log is to be told, when the next lease ends, and who waits.
//!
//! **Always holds**: what a cursor has that the log was not told is among what gathers; a lane with leases is in the schedule by the
//! first of their ends; who waits has been told if more is ready than those who were told before will take.

mod inner;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Monotonic, QueueId, QueueOffset};
use format::lease::{LeaseChange, LeaseState};
use format::state::StateChange;
use parking_lot::Mutex;

use crate::RawOffset;
use crate::cursor::committed::OffsetCursor;
use crate::cursor::lanes::{Expiry, Unkept};
use crate::cursor::lease::{GiveBack, Grant, LeaseCounts, LeaseCursor, Owner, Verdict};
use crate::cursor::takers::{Taker, Takers, Wish};
use crate::queue::Queue;
use inner::Inner;

/// Grants that are known of an attempt before those go that have nothing any more: more than it has messages.
const OWNERS_MAX: usize = 64;

/// How long what cannot be read now stays away where it holds nothing up, and nobody is told of what it holds up.
const UNREADABLE_RETRY_MS: u64 = 1000;

/// A group's cursor in a queue.
#[derive(Debug)]
pub struct Lane {
    pub(super) of: Arc<str>,
    pub(super) queue_id: u32,
    /// In the schedule: no two lanes have the same.
    pub(super) number: u64,
    inner: Mutex<Inner>,
    /// Since somebody has worked with it here.
    place: OnceLock<Place>,
    pub(super) takers: Takers,
    unkept: Arc<Mutex<Unkept>>,
    expiry: Arc<Mutex<Expiry>>,
    /// The table has it no longer: nothing of it goes into the log any more.
    is_forgotten: AtomicBool,
    /// Who had messages below this is not known for sure.
    doubted_below: AtomicU64,
}

/// Where a lane is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) queue: Queue,
    /// The group's committed offset, which follows the floor, and the floor it. A message queue has none.
    pub(crate) committed: Option<Arc<OffsetCursor>>,
}

/// How messages are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a> {
    pub(crate) grant: Grant,
    /// In order: nothing while anybody has messages of the lane, but for who asks again by the name of its last attempt.
    pub(crate) attempt: Option<&'a str>,
    /// How many messages of the lane it has, if it goes on with what it has begun: those are in nobody's way. In order it goes on only
    /// while it has all of them.
    pub(crate) held: Option<usize>,
    pub(crate) now: Monotonic,
}

impl Lane {
    pub(super) fn new(
        (of, queue_id, number): (Arc<str>, u32, u64),
        (state, is_whole): (LeaseState, bool),
        unkept: &Arc<Mutex<Unkept>>,
        expiry: &Arc<Mutex<Expiry>>,
    ) -> Self {
        Self {
            of,
            queue_id,
            number,
            inner: Mutex::new(Inner { cursor: LeaseCursor::open(state), is_whole, ..Inner::default() }),
            place: OnceLock::new(),
            takers: Takers::default(),
            unkept: unkept.clone(),
            expiry: expiry.clone(),
            is_forgotten: AtomicBool::new(false),
            doubted_below: AtomicU64::new(0),
        }
    }

    /// Topic and group.
    pub fn names(&self) -> (&str, &str) {
        self.of.split_once('@').unwrap_or((&self.of, ""))
    }

    /// Number of its queue.
    pub const fn queue_id(&self) -> QueueId {
        QueueId(self.queue_id)
    }

    /// Whether it is gone, with its topic or group.
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
    }

    /// Whether messages can be taken from it: it is known where it is, and it is not gone.
    pub fn is_in_use(&self) -> bool {
        self.place.get().is_some() && !self.is_forgotten()
    }

    /// Any message that is there may have been handed out in the moment before a crash, of which the log was not told.
    pub(crate) fn doubt_all(&self) {
        self.doubted_below.store(self.bounds().end.0, Ordering::Relaxed);
    }

    /// Whether somebody may have had a message before a crash, whatever is counted.
    pub fn is_doubted(&self, offset: QueueOffset) -> bool {
        offset.0 < self.doubted_below.load(Ordering::Relaxed)
    }

    pub(super) fn put_at(&self, place: Place) {
        let _ = self.place.set(place);
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.place.get().map(|place| &place.queue)
    }

    /// First offset of its queue, and one past the last.
    fn bounds(&self) -> Range<QueueOffset> {
        self.queue().map_or(QueueOffset(0)..QueueOffset(0), |queue| queue.first()..queue.end())
    }

    /// Does something with the cursor: what it changes is told to the log soon.
    pub fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut LeaseCursor) -> T) -> T {
        self.act(|inner| act(&mut inner.cursor))
    }

    fn act<T>(self: &Arc<Self>, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let outcome = act(&mut inner);
        if inner.cursor.has_untold() {
            self.note_unkept(&mut inner);
        }
        self.schedule(&mut inner);
        outcome
    }

    fn note_unkept(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.is_unkept && !self.is_forgotten() {
            inner.is_unkept = true;
            self.unkept.lock().lanes.push(self.clone());
        }
    }

    /// Has it in the schedule by the next deadline, unless it is there by an earlier time.
    fn schedule(self: &Arc<Self>, inner: &mut Inner) {
        let deadlines = inner.cursor.next_deadline().into_iter().chain(inner.paused_until);
        let Some(next) = deadlines.min() else { return };
        if inner.scheduled.is_some_and(|at| at <= next) || self.is_forgotten() {
            return;
        }
        let mut expiry = self.expiry.lock();
        if let Some(later) = inner.scheduled.replace(next) {
            expiry.remove(&(later, self.number));
        }
        expiry.insert((next, self.number), Arc::downgrade(self));
    }

    /// Ends what has lasted long enough, now that its time in the schedule has come, and tells who waits.
    pub(super) fn expire(self: &Arc<Self>, now: Monotonic) {
        self.act(|inner| {
            inner.scheduled = None;
            inner.expire(now);
        });
        self.tell();
    }

    /// Hands ready messages out by what `judge` says, which is told how often each was handed out before. `false` if nothing may be taken
    /// now.
    pub(crate) fn take(self: &Arc<Self>, take: Take<'_>, judge: impl FnMut(QueueOffset, u32) -> Verdict) -> bool {
        let (may_take, given_back) = self.act(|inner| {
            let Some(end) = self.forget_settled(inner) else { return (false, 0) };
            inner.cursor.expire(take.now);
            let given_back = if take.held.is_none() { inner.take_back(take.attempt) } else { 0 };
            let may_take = inner.may_take(&take);
            if may_take && inner.cursor.take(end, take.grant, judge) > 0 && take.attempt.is_none() {
                inner.attempt = None;
            }
            (may_take, given_back)
        });
        if given_back > 0 {
            // This time it may have wanted less.
            self.tell();
        }
        may_take
    }

    /// Has settled what is gone from the queue, or lies below the committed offset. Gives where the queue ends.
    fn forget_settled(&self, inner: &mut Inner) -> Option<QueueOffset> {
        let Place { queue, committed } = self.place.get()?;
        let bounds = queue.first()..queue.end();
        // With the cursor locked: a reset puts the offset back first, and the cursor then.
        let offset = committed.as_ref().map(|committed| committed.draw_back(self.queue_id, bounds.end));
        inner.cursor.forget_before(bounds.start.max(offset.unwrap_or_default()));
        Some(bounds.end)
    }

    /// The committed offset was put elsewhere: somebody who takes in order may have waited for those who had what is settled now.
    pub(super) fn follow_commit(self: &Arc<Self>) {
        self.act(|inner| self.forget_settled(inner));
        self.tell();
    }

    /// How many messages the last attempt has, if it has that name.
    pub(crate) fn held_by_attempt(&self, name: &str) -> usize {
        let inner = self.inner.lock();
        inner.again(Some(name)).map_or(0, |last| inner.cursor.count_of(&last.owners))
    }

    /// Takes back what an attempt of that name has, which is made again and takes nothing here.
    pub(crate) fn take_back(self: &Arc<Self>, name: &str) {
        if self.act(|inner| inner.take_back(Some(name))) > 0 {
            self.tell();
        }
    }

    /// Settles what the owner has of some messages; gives how many.
    pub fn settle(self: &Arc<Self>, owner: Owner, offsets: impl IntoIterator<Item = QueueOffset>) -> u64 {
        let (count, is_free) = self.act(|inner| {
            let count = inner.cursor.settle(owner, offsets);
            (count, count > 0 && inner.cursor.counts(QueueOffset(0)).leased == 0)
        });
        if is_free {
            // Who takes in order may go on.
            self.tell();
        }
        count
    }

    /// Has a message stay with its owner by another grant; whether it had it.
    pub fn renew(self: &Arc<Self>, owner: Owner, offset: QueueOffset, grant: Grant) -> bool {
        self.act(|inner| {
            let is_held = inner.cursor.renew(owner, offset, grant);
            if let Some(attempt) = inner.attempt.as_mut().filter(|attempt| is_held && attempt.owners.contains(&owner))
                && !attempt.owners.contains(&grant.owner)
            {
                if attempt.owners.len() >= OWNERS_MAX {
                    attempt.owners.retain(|owner| inner.cursor.count_of(&[*owner]) > 0);
                }
                attempt.owners.push(grant.owner);
            }
            is_held
        })
    }

    /// Takes a message back from its owner, if it has it.
    pub(crate) fn give_back(self: &Arc<Self>, owner: Owner, offset: QueueOffset, how: GiveBack) {
        if self.with(|cursor| cursor.give_back(owner, offset, how)) {
            self.tell();
        }
    }

    /// Has a message that its owner cannot read away for a while, and others come before it. It was given to nobody.
    pub fn put_off(self: &Arc<Self>, owner: Owner, offset: QueueOffset, now: Monotonic) {
        let ready = Some(now.plus_ms(UNREADABLE_RETRY_MS));
        self.give_back(owner, offset, GiveBack { ready, is_counted: false });
    }

    /// Nothing of it could be read: who waits is told of nothing for a while. All messages keep their places.
    pub(crate) fn pause(self: &Arc<Self>, now: Monotonic) {
        self.act(|inner| inner.paused_until = Some(now.plus_ms(UNREADABLE_RETRY_MS)));
    }

    /// Takes what the owner has of some messages back: they are ready again, at their places. `is_counted`: it had
    /// them.
    pub fn requeue(self: &Arc<Self>, owner: Owner, offsets: impl IntoIterator<Item = QueueOffset>, is_counted: bool) {
        let how = GiveBack { ready: None, is_counted };
        self.with(|cursor| offsets.into_iter().for_each(|offset| _ = cursor.give_back(owner, offset, how)));
        self.tell();
    }

    /// Has a connection told with `LeaseReady` when messages may be taken, not for those of before: look after it. `None` if nobody has worked
    /// with the lane yet.
    pub fn wait(self: &Arc<Self>, wish: Wish) -> Option<Taker> {
        Some(self.queue()?.wait_at(self, wish))
    }

    /// Whether messages may be taken now, in order or not.
    pub fn has_ready(self: &Arc<Self>, in_order: bool, now: Monotonic) -> bool {
        self.act(|inner| inner.expire(now));
        let (ready, is_held) = self.ready();
        ready > 0 && !(in_order && is_held)
    }

    /// How many messages are what.
    pub fn counts(&self) -> LeaseCounts {
        self.inner.lock().cursor.counts(self.bounds().end)
    }

    /// The same of a queue that ends there, also where nobody has worked with the lane yet.
    pub(crate) fn counts_until(&self, end: QueueOffset) -> LeaseCounts {
        self.inner.lock().cursor.counts(end)
    }

    /// The first message that is not settled.
    pub fn floor(&self) -> QueueOffset {
        self.inner.lock().cursor.floor()
    }

    /// How many messages may be taken now, in order or not.
    pub(crate) fn takeable(&self, in_order: bool) -> u64 {
        let counts = self.counts();
        if in_order && counts.leased > 0 { 0 } else { counts.ready }
    }

    /// How many messages who waits may be told of, and whether anybody has others.
    pub(crate) fn ready(&self) -> (u64, bool) {
        let inner = self.inner.lock();
        let counts = inner.cursor.counts(self.bounds().end);
        (if inner.paused_until.is_some() { 0 } else { counts.ready }, counts.leased > 0)
    }

    /// Tells as many of those who wait as it takes to take what is ready.
    pub(crate) fn tell(&self) {
        self.takers.tell(|| self.ready());
    }

    /// Whether somebody waits, or was told and has not taken yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.takers.is_any_here()
    }

    /// Has all look again who wait.
    pub(crate) fn tell_all(&self) {
        self.takers.tell_all();
    }

    /// Begins again at `floor`, whatever was done before.
    pub(super) fn reset(self: &Arc<Self>, floor: LeaseState) {
        {
            let mut inner = self.inner.lock();
            (inner.cursor, inner.is_whole) = (LeaseCursor::open(floor), true);
            self.note_unkept(&mut inner);
        }
        self.takers.tell_all();
    }

    /// The log is to be told all of it.
    pub(super) fn note_whole(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.is_whole = true;
        self.note_unkept(&mut inner);
    }

    /// Whether it is of this queue, and not of one of before that went with its messages.
    pub(super) fn fits(&self, queue: &Queue) -> bool {
        self.queue().map_or_else(|| self.floor() <= queue.end(), |known| Arc::ptr_eq(&known.index, &queue.index))
    }

    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Release);
        self.takers.tell_all();
    }

    /// What the log is to be told for some messages, in order, to be settled with what else is appended then; `None` if it is told nothing
    /// of the lane any more.
    pub(crate) fn settlement_of(&self, offsets: &[QueueOffset]) -> Option<StateChange> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for QueueOffset(offset) in offsets {
            match runs.last_mut() {
                Some((_, end)) if *end >= *offset => *end = offset + 1,
                _ => runs.push((*offset, offset + 1)),
            }
        }
        if runs.is_empty() || self.is_forgotten() {
            return None;
        }
        let change = LeaseChange::of(QueueOffset(0), runs.into_iter(), std::iter::empty(), QueueOffset(0));
        let of = self.of.to_string();
        Some(StateChange::Leases { of, queue: self.queue_id, replaces: false, change })
    }

    /// What the log does not have. The committed offset is where the floor is by now.
    pub(super) fn take_unkept(&self) -> Option<StateChange> {
        let (change, floor) = {
            let mut inner = self.inner.lock();
            inner.is_unkept = false;
            let replaces = std::mem::take(&mut inner.is_whole);
            let changed = inner.cursor.gather();
            let change = if replaces { Some(inner.cursor.state().change()) } else { changed };
            let change = change.filter(|_| !self.is_forgotten())?;
            let of = self.of.to_string();
            (StateChange::Leases { of, queue: self.queue_id, replaces, change }, inner.cursor.floor())
        };
        if let Some(committed) = self.place.get().and_then(|place| place.committed.as_ref()) {
            committed.advance(self.queue_id, floor.0 as RawOffset);
        }
        Some(change)
    }

    /// All of it.
    pub(super) fn state(&self) -> LeaseState {
        self.inner.lock().cursor.state()
    }

    /// Takes in what a master tells of it.
    pub(super) fn learn(&self, change: &LeaseChange) {
        self.inner.lock().cursor.learn(change);
    }
}
