//! One consumer's wish for messages of several lanes, as far as it has come.
//!
//! It is tried in memory first, and goes on where it stood once it may wait for the disk.

use std::sync::Arc;

use base::{Monotonic, QueueOffset};
use bytes::{Bytes, BytesMut};
use format::record;
use storage::{ReadMode, Records, StorageError, Store};

use super::leased::{Leased, read, read_one};
use super::wanted::Wanted;
use super::{DoomReason, Doomed};
use crate::cursor::lane::{Lane, Take};
use crate::cursor::lease::{GiveBack, Verdict};
use crate::cursor::window::Window;
use crate::filter::Filter;
use crate::queue::size_of;

/// Entries read at once, and looked at with a lane locked, when a filter lets few through.
const SCAN_COUNT: usize = 256;

/// Entries looked at for one wish at most.
const SCAN_COUNT_MAX: usize = 8192;

/// How often a lane is looked at with entries from the disk: others may have taken the messages meanwhile.
const LOOKS_MAX: usize = 16;

/// Messages that one wish has given up at most.
const DOOMED_MAX: usize = 64;

/// Messages that a lane has given.
#[derive(Debug)]
pub struct Given {
    /// Which of the lanes wanted.
    pub lane: usize,
    /// Offsets, and how often each was handed out before, in the order of the records.
    pub messages: Vec<(QueueOffset, u32)>,
}

/// What is handed out.
///
/// What it has taken and not read goes back when it is dropped: nobody has had it.
#[derive(Debug)]
pub struct HandOut {
    wanted: Wanted,
    /// How many messages of each lane an attempt has that is made again: it gets those, and no others. `None` before anything was taken.
    again: Option<Vec<usize>>,
    /// The lane that is next.
    next: usize,
    /// What was leased there and is to be read.
    leased: Vec<Leased>,
    scanned: usize,
    given: Vec<Given>,
    pieces: Vec<Bytes>,
    count: usize,
    size: usize,
    doomed: Vec<Doomed>,
    /// Why some could not be read.
    failure: Option<StorageError>,
}

/// How a look at a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing more can be had there for this wish.
    Done,
    /// There are more entries to look at than one look does.
    More,
    /// From this entry on they have to be read from the disk.
    Cold(QueueOffset),
    /// Nothing more can be had at all: in order, what was taken before is not its own any more.
    Lost,
}

impl Drop for HandOut {
    fn drop(&mut self) {
        self.give_back_unread();
    }
}

impl HandOut {
    /// Nothing so far.
    pub const fn of(wanted: Wanted) -> Self {
        Self {
            wanted,
            again: None,
            next: 0,
            leased: Vec::new(),
            scanned: 0,
            given: Vec::new(),
            pieces: Vec::new(),
            count: 0,
            size: 0,
            doomed: Vec::new(),
            failure: None,
        }
    }

    /// What was wanted.
    pub const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// What each lane has given, in the order of the records.
    pub fn given(&self) -> &[Given] {
        &self.given
    }

    /// How many messages there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of their records.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Bytes of what it has and of what it has taken and not read.
    pub fn wanted_size(&self) -> usize {
        self.size + self.leased.iter().map(|leased| size_of(&leased.entry)).sum::<usize>()
    }

    /// How many messages more could be had of the lanes.
    pub fn rest(&self) -> u64 {
        let in_order = self.wanted.attempt.is_some();
        self.wanted.lanes.iter().map(|(lane, _)| lane.takeable(in_order)).sum()
    }

    /// Messages to be given up.
    pub fn take_doomed(&mut self) -> Vec<Doomed> {
        std::mem::take(&mut self.doomed)
    }

    /// The records, whole, one or more to a piece.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The same.
    pub fn into_pieces(mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.pieces)
    }

    /// Whether it found nothing, and looked no further only since one wish does not: there may be something behind what is to be given up or
    /// was settled.
    pub const fn is_cut_short(&self) -> bool {
        self.count == 0 && (self.scanned >= SCAN_COUNT_MAX || self.doomed.len() >= DOOMED_MAX)
    }

    const fn wants_more(&self) -> bool {
        self.count < self.wanted.count_max && (self.count == 0 || self.size < self.wanted.size_max)
    }

    /// How many messages of the next lane it has.
    fn held(&self) -> usize {
        let Some((lane, _)) = self.wanted.lanes.get(self.next) else { return 0 };
        let given = self.given.last().filter(|given| given.lane == self.next).map_or(0, |given| given.messages.len());
        given + self.doomed.iter().filter(|doomed| Arc::ptr_eq(&doomed.lane, lane)).count()
    }

    /// How many messages more of the next lane are wanted.
    fn room(&self) -> usize {
        let room = self.wanted.count_max.saturating_sub(self.count);
        let again = self.again.as_ref().and_then(|again| again.get(self.next));
        again.map_or(room, |again| room.min(again.saturating_sub(self.held())))
    }

    /// Takes and reads until there is enough, nothing more, or no more `room`. A lane of which nothing can be read is in no other's way.
    /// `WouldBlock`: it has nothing yet, and goes on where it may wait and has room. What it has is given at once, and what else it has taken
    /// is given back: whoever waits for room has read nothing.
    pub(super) fn go_on(
        &mut self,
        store: &Store,
        (mode, room): (ReadMode, usize),
        now: Monotonic,
    ) -> Result<(), StorageError> {
        self.note_again();
        let mut outcome = self.read(store, (mode, room), now).map(|_| Look::More);
        loop {
            match outcome {
                Ok(Look::Done) => self.next += 1,
                Ok(Look::Lost) => self.next = self.wanted.lanes.len(),
                Ok(Look::Cold(_)) if mode == ReadMode::IfCached && self.count == 0 => {
                    return Err(StorageError::WouldBlock);
                }
                Err(StorageError::WouldBlock) if self.count == 0 => return Err(StorageError::WouldBlock),
                Err(StorageError::WouldBlock) => {
                    self.give_back_unread();
                    break;
                }
                Ok(Look::Cold(_)) if mode == ReadMode::IfCached => break,
                Ok(Look::More | Look::Cold(_)) => {}
                Err(error) => {
                    self.pass_by(&error, now);
                    self.failure.get_or_insert(error);
                }
            }
            if !self.wants_more() || self.scanned >= SCAN_COUNT_MAX || self.next >= self.wanted.lanes.len() {
                break;
            }
            outcome = self.lease((mode, room), now).and_then(|look| {
                let passed_over = self.read(store, (mode, room), now)?;
                Ok(if passed_over && look == Look::Done { Look::More } else { look })
            });
        }
        self.take_back_rest();
        match self.failure.take() {
            // Told of once; what is whole is not held up by it.
            Some(error) if self.is_of_entries(&error) => store.tell_lost_entries(&error),
            Some(error) if self.count == 0 => return Err(error),
            _ => {}
        }
        Ok(())
    }

    /// Goes on with the next lane, unless the disk is gone: then nothing of the same message queue comes before what is urgent there.
    fn pass_by(&mut self, error: &StorageError, now: Monotonic) {
        let is_gone = !matches!(error, StorageError::Damaged { .. });
        let is_of_message_queue =
            |lane: &Lane| lane.queue().is_some_and(|queue| queue.topic().message_queue().is_some());
        let rest = self.wanted.lanes.get(self.next..).unwrap_or_default();
        let held_up =
            if rest.first().is_some_and(|(lane, _)| is_gone && is_of_message_queue(lane)) { rest.len() } else { 1 };
        rest.iter().take(held_up).for_each(|(lane, _)| lane.pause(now));
        self.next += held_up;
    }

    /// Whether entries of a message queue are at fault.
    fn is_of_entries(&self, error: &StorageError) -> bool {
        let mut queues = self.wanted.lanes.iter().filter_map(|(lane, _)| lane.queue());
        matches!(error, StorageError::Damaged { .. }) && queues.any(|queue| queue.topic().message_queue().is_some())
    }

    /// What was taken and not read is as if it had not been taken.
    fn give_back_unread(&mut self) {
        let Some((lane, _)) = self.wanted.lanes.get(self.next) else { return };
        for leased in self.leased.drain(..) {
            lane.give_back(self.wanted.owner(), leased.offset, GiveBack { ready: None, is_counted: false });
        }
    }

    /// Before anything is taken: what an attempt has by whose name it asks.
    fn note_again(&mut self) {
        let Wanted { lanes, attempt, .. } = &self.wanted;
        self.again.get_or_insert_with(|| {
            let Some(name) = attempt else { return Vec::new() };
            let held: Vec<_> = lanes.iter().map(|(lane, _)| lane.held_by_attempt(name)).collect();
            if held.iter().any(|held| *held > 0) { held } else { Vec::new() }
        });
    }

    /// What the attempt had in lanes that it has not come to this time is nobody's.
    fn take_back_rest(&self) {
        let (Some(name), Some(again)) = (&self.wanted.attempt, &self.again) else { return };
        let rest = self.wanted.lanes.iter().zip(again).skip(self.next + usize::from(self.held() > 0));
        rest.for_each(|((lane, _), _)| lane.take_back(name));
    }

    /// Leases what is wanted of the next lane.
    fn lease(&mut self, (mode, room): (ReadMode, usize), now: Monotonic) -> Result<Look, StorageError> {
        let mut window = Window::default();
        for _ in 0..LOOKS_MAX {
            let look = self.look(&mut window, self.wanted.size_max.min(room), now)?;
            let Look::Cold(from) = look else { return Ok(look) };
            if mode == ReadMode::IfCached || !self.leased.is_empty() {
                return Ok(look);
            }
            let queue = self.wanted.lanes.get(self.next).and_then(|(lane, _)| lane.queue());
            let Some(queue) = queue else { return Ok(Look::Done) };
            // Not with the lane locked: others take and settle there meanwhile.
            window.read(&queue.index, from, SCAN_COUNT, ReadMode::MayWait)?;
        }
        Ok(Look::Done)
    }

    /// Looks at what is ready in the next lane, as far as entries are in the window or in memory. One that cannot be read holds up what is
    /// behind it.
    fn look(&mut self, window: &mut Window, size_max: usize, now: Monotonic) -> Result<Look, StorageError> {
        let (held, room) = (self.held(), self.room());
        let Self { wanted, leased, scanned, doomed, count, size, next, .. } = self;
        let Some((lane, filter)) = wanted.lanes.get(*next) else { return Ok(Look::Done) };
        let Some(queue) = lane.queue() else { return Ok(Look::Done) };
        let (mut size, mut look, mut failure) = (*size, Look::Done, None);
        let (mut count, count_max) = (*count, *count + room);
        let window_size = if *filter == Filter::All { wanted.count_max.min(SCAN_COUNT) } else { SCAN_COUNT };
        let scan_end = *scanned + SCAN_COUNT;
        let (grant, doom) = (wanted.holder.grant(), wanted.holder.doom());
        let doomed_before = doomed.len();
        let take = Take { grant, attempt: wanted.attempt.as_deref(), held: (held > 0).then_some(held), now };
        let may_take = lane.take(take, |offset, deliveries| {
            if count >= count_max {
                return Verdict::Stop;
            }
            if *scanned >= scan_end {
                look = Look::More;
                return Verdict::Stop;
            }
            let entry = match window.entry(&queue.index, offset, window_size) {
                Ok(Some(entry)) => entry,
                // Its place is gone: the message was lost.
                Ok(None) => return Verdict::Settle,
                Err(StorageError::WouldBlock) => {
                    look = Look::Cold(offset);
                    return Verdict::Stop;
                }
                Err(error) => {
                    failure = Some(error);
                    return Verdict::Stop;
                }
            };
            *scanned += 1;
            let expired = wanted.expiry.filter(|expiry| expiry.is_over(&entry, deliveries));
            let is_dropped = expired.is_some_and(|expiry| !expiry.is_given_up);
            if is_dropped || entry.size == 0 || !filter.matches(entry.tag_code) {
                return Verdict::Settle;
            }
            if expired.is_some() || deliveries > wanted.redeliveries_max {
                if doomed.len() >= DOOMED_MAX {
                    return Verdict::Stop;
                }
                let reason = if expired.is_some() { DoomReason::Expired } else { DoomReason::DeliveredTooOften };
                doomed.push(Doomed { lane: lane.clone(), owner: doom, offset, deliveries, reason });
                return Verdict::Lease;
            }
            if count > 0 && size + entry.size as usize > size_max {
                return Verdict::Stop;
            }
            count += 1;
            size += entry.size as usize;
            leased.push(Leased { offset, entry, deliveries });
            Verdict::Lease
        });
        doomed.iter().skip(doomed_before).for_each(|doomed| doomed.take_from(grant.owner));
        match failure {
            Some(error) if leased.is_empty() => Err(error),
            _ if held > 0 && !may_take => Ok(Look::Lost),
            _ => Ok(look),
        }
    }

    /// Reads what was leased; where that fails, one by one, if it may wait for the disk. Whether others may be taken in place of what was
    /// passed over.
    fn read(&mut self, store: &Store, (mode, room): (ReadMode, usize), now: Monotonic) -> Result<bool, StorageError> {
        if self.leased.is_empty() {
            return Ok(false);
        }
        if self.wanted_size() > room {
            return Err(StorageError::WouldBlock);
        }
        let Some(queue) = self.wanted.lanes.get(self.next).and_then(|(lane, _)| lane.queue()) else { return Ok(false) };
        match read(store, queue, &self.leased, mode) {
            Ok(records) if records.count() == self.leased.len() => {
                let mut leased = std::mem::take(&mut self.leased);
                self.take_in(&leased, records);
                leased.clear();
                self.leased = leased;
                Ok(false)
            }
            _ if mode == ReadMode::IfCached => Err(StorageError::WouldBlock),
            _ => self.read_one_by_one(store, now),
        }
    }

    /// What cannot be read now was given to nobody, and what is behind it is not read either. What is damaged or gone is settled: the store has
    /// told of it. Where it was settled, or its segment is missing, others may be taken in its place unless order matters.
    fn read_one_by_one(&mut self, store: &Store, now: Monotonic) -> Result<bool, StorageError> {
        let Some((lane, _)) = self.wanted.lanes.get(self.next) else { return Ok(false) };
        let (lane, owner, in_order) = (lane.clone(), self.wanted.owner(), self.wanted.attempt.is_some());
        let (mut failure, before, mut passed_over) = (None, self.count, false);
        let at_once = GiveBack { ready: None, is_counted: false };
        for leased in std::mem::take(&mut self.leased) {
            let Some(queue) = lane.queue().filter(|_| failure.is_none()) else {
                lane.give_back(owner, leased.offset, at_once);
                continue;
            };
            match read_one(store, queue, leased) {
                Ok(Some(records)) => self.take_in(&[leased], records),
                Ok(None) => {
                    let _ = lane.settle(owner, [leased.offset]);
                    passed_over |= !in_order;
                }
                Err(error @ StorageError::Damaged { .. }) if !in_order => {
                    lane.put_off(owner, leased.offset, now);
                    passed_over = true;
                    self.failure.get_or_insert(error);
                }
                Err(error) => {
                    lane.give_back(owner, leased.offset, at_once);
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| in_order || self.count == before).map_or(Ok(passed_over), Err)
    }

    /// Takes in the records of what was leased.
    fn take_in(&mut self, leased: &[Leased], records: Records) {
        let Some((lane, _)) = self.wanted.lanes.get(self.next) else { return };
        let (mut messages, mut kept) = (Vec::new(), Vec::new());
        let holder = self.wanted.holder;
        let is_told = holder.is_told_deliveries();
        for (&Leased { offset, deliveries, .. }, bytes) in leased.iter().zip(records.iter().flatten()) {
            // Where it was stored again and again, its record counts too.
            let before = if is_told { record::deliveries_of(bytes) } else { 0 };
            if before > 0 && before.saturating_add(deliveries) > self.wanted.redeliveries_max {
                let (lane, reason) = (lane.clone(), DoomReason::DeliveredTooOften);
                let doomed = Doomed { lane, owner: holder.doom(), offset, deliveries, reason };
                doomed.take_from(holder.grant().owner);
                self.doomed.push(doomed);
                continue;
            }
            messages.push((offset, deliveries));
            kept.push((bytes, deliveries));
        }
        let before = self.pieces.len();
        if kept.len() == records.count() && (!is_told || kept.iter().all(|(_, deliveries)| *deliveries == 0)) {
            records.into_pieces(&mut self.pieces);
        } else if !kept.is_empty() {
            self.pieces.push(copied(&kept, is_told));
        }
        self.count += messages.len();
        self.size += self.pieces.iter().skip(before).map(Bytes::len).sum::<usize>();
        match self.given.last_mut() {
            _ if messages.is_empty() => {}
            Some(last) if last.lane == self.next => last.messages.extend(messages),
            _ => self.given.push(Given { lane: self.next, messages }),
        }
    }
}

/// Copies of records; with `is_told` they say how often they were handed out.
fn copied(records: &[(&[u8], u32)], is_told: bool) -> Bytes {
    let mut copies = BytesMut::new();
    for (bytes, deliveries) in records {
        let start = copies.len();
        copies.extend_from_slice(bytes);
        if let Some(copy) = copies.get_mut(start..).filter(|_| is_told) {
            record::add_deliveries(copy, *deliveries);
        }
    }
    copies.freeze()
}
