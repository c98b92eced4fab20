//! One consumer's wish for messages of several lanes, as far as it has come.
//!
//! It is tried in memory first, and goes on where it stood once it may wait for the disk.

use std::sync::Arc;

use base::{Monotonic, QueueOffset};
use bytes::{Bytes, BytesMut};
use format::queue_entry::Entry;
use format::record;
use storage::{ReadMode, Records, StorageError, Store};

use super::wanted::Wanted;
use super::window::Window;
use super::{DoomReason, Doomed};
use crate::cursor::lane::Take;
use crate::cursor::lease::Verdict;
use crate::filter::Filter;
use crate::queue::Queue;

/// Entries read at once, and looked at with a lane locked, when a filter lets few through.
const SCAN_COUNT: usize = 256;

/// Entries looked at for one wish at most.
const SCAN_COUNT_MAX: usize = 8192;

/// How often a lane is looked at with entries from the disk: others may have taken the messages meanwhile.
const LOOKS_MAX: usize = 16;

/// Messages that one wish has given up at most.
const DOOMED_MAX: usize = 64;

/// Messages that cannot be read and are passed over in one look at most.
const UNREADABLE_MAX: usize = 32;

/// Messages that a lane has given.
#[derive(Debug)]
pub struct Given {
    /// Which of the lanes wanted.
    pub lane: usize,
    /// Offsets, and how often each was handed out before, in the order of the records.
    pub messages: Vec<(QueueOffset, u32)>,
}

/// What is handed out.
#[derive(Debug)]
pub struct HandOut {
    wanted: Wanted,
    /// The lane that is next, and whether something was taken there.
    next: usize,
    has_begun: bool,
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

#[derive(Clone, Copy, Debug)]
struct Leased {
    offset: QueueOffset,
    entry: Entry,
    deliveries: u32,
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
}

impl HandOut {
    /// Nothing so far.
    pub const fn of(wanted: Wanted) -> Self {
        Self {
            wanted,
            next: 0,
            has_begun: false,
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
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    const fn wants_more(&self) -> bool {
        self.count < self.wanted.count_max && (self.count == 0 || self.size < self.wanted.size_max)
    }

    /// Takes and reads until there is enough, or nothing more. A lane of which nothing can be read is in no other's way.
    pub(super) fn go_on(&mut self, store: &Store, mode: ReadMode, now: Monotonic) -> Result<(), StorageError> {
        self.read(store, mode)?;
        while self.wants_more() && self.scanned < SCAN_COUNT_MAX && self.next < self.wanted.lanes.len() {
            let look = self.lease(mode, now).and_then(|look| self.read(store, mode).map(|()| look));
            match look {
                Ok(Look::Done) => (self.next, self.has_begun) = (self.next + 1, false),
                Ok(Look::Cold(_)) if mode == ReadMode::IfCached => return Err(StorageError::WouldBlock),
                Ok(Look::More | Look::Cold(_)) => {}
                Err(StorageError::WouldBlock) => return Err(StorageError::WouldBlock),
                Err(error) => {
                    self.failure.get_or_insert(error);
                    (self.next, self.has_begun) = (self.next + 1, false);
                }
            }
        }
        self.failure.take().filter(|_| self.count == 0).map_or(Ok(()), Err)
    }

    /// Leases what is wanted of the next lane.
    fn lease(&mut self, mode: ReadMode, now: Monotonic) -> Result<Look, StorageError> {
        let mut window = Window::default();
        for _ in 0..LOOKS_MAX {
            let look = self.look(&mut window, now)?;
            let Look::Cold(from) = look else { return Ok(look) };
            if mode == ReadMode::IfCached || !self.leased.is_empty() {
                return Ok(look);
            }
            let queue = self.wanted.lanes.get(self.next).and_then(|(lane, _)| lane.queue());
            let Some(queue) = queue else { return Ok(Look::Done) };
            // Not with the lane locked: others take and settle there meanwhile.
            window.read(queue, from, SCAN_COUNT, ReadMode::MayWait)?;
        }
        Ok(Look::Done)
    }

    /// Looks at what is ready in the next lane, as far as entries are in the window or in memory. Entries that cannot be read are leased for
    /// nobody, so that they hold nothing up: they are tried again when the lease ends.
    fn look(&mut self, window: &mut Window, now: Monotonic) -> Result<Look, StorageError> {
        let Self { wanted, leased, scanned, doomed, count, size, next, has_begun, .. } = self;
        let Some((lane, filter)) = wanted.lanes.get(*next) else { return Ok(Look::Done) };
        let Some(queue) = lane.queue() else { return Ok(Look::Done) };
        let (mut count, mut size, mut look, mut failures) = (*count, *size, Look::Done, Vec::new());
        let window_size = if *filter == Filter::All { wanted.count_max.min(SCAN_COUNT) } else { SCAN_COUNT };
        let scan_end = *scanned + SCAN_COUNT;
        let (grant, doom) = (wanted.holder.grant(), wanted.holder.doom());
        let doomed_before = doomed.len();
        let take = Take { grant, attempt: wanted.attempt.as_deref(), goes_on: *has_begun, now };
        lane.take(take, |offset, deliveries| {
            if count >= wanted.count_max || failures.len() >= UNREADABLE_MAX {
                return Verdict::Stop;
            }
            if *scanned >= scan_end {
                look = Look::More;
                return Verdict::Stop;
            }
            let entry = match window.entry(queue, offset, window_size) {
                Ok(Some(entry)) => entry,
                // Its place is gone: the message was lost.
                Ok(None) => return Verdict::Settle,
                Err(StorageError::WouldBlock) => {
                    look = Look::Cold(offset);
                    return Verdict::Stop;
                }
                Err(error) => {
                    failures.push(error);
                    return Verdict::Lease;
                }
            };
            *scanned += 1;
            if entry.size == 0 || !filter.matches(entry.tag_code) {
                return Verdict::Settle;
            }
            let expired = wanted.expiry.filter(|expiry| expiry.is_over(&entry));
            if expired.is_some_and(|expiry| !expiry.is_given_up) {
                return Verdict::Settle;
            }
            if expired.is_some() || deliveries > wanted.redeliveries_max {
                if doomed.len() >= DOOMED_MAX {
                    return Verdict::Stop;
                }
                *has_begun = true;
                let reason = if expired.is_some() { DoomReason::Expired } else { DoomReason::DeliveredTooOften };
                doomed.push(Doomed { lane: lane.clone(), owner: doom, offset, deliveries, reason });
                return Verdict::Lease;
            }
            if count > 0 && size + entry.size as usize > wanted.size_max {
                return Verdict::Stop;
            }
            *has_begun = true;
            count += 1;
            size += entry.size as usize;
            leased.push(Leased { offset, entry, deliveries });
            wanted.holder.verdict()
        });
        doomed.iter().skip(doomed_before).for_each(|doomed| doomed.take_from(grant.owner));
        match failures.pop() {
            Some(error) if leased.is_empty() => Err(error),
            _ => Ok(look),
        }
    }

    /// Reads what was leased. What is damaged is settled: the store has told of it. What cannot be read stays leased for nobody.
    fn read(&mut self, store: &Store, mode: ReadMode) -> Result<(), StorageError> {
        let Some((lane, _)) = self.wanted.lanes.get(self.next).filter(|_| !self.leased.is_empty()) else {
            return Ok(());
        };
        let Some(queue) = lane.queue() else { return Ok(()) };
        let records = match read(store, queue, &self.leased, mode) {
            Err(error) if !matches!(error, StorageError::WouldBlock) => {
                self.leased.retain(|leased| read(store, queue, &[*leased], mode).is_ok());
                if self.leased.is_empty() {
                    return Err(error);
                }
                read(store, queue, &self.leased, mode)?
            }
            outcome => outcome?,
        };
        let (mut messages, mut kept, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        let holder = self.wanted.holder;
        let is_told = holder.is_told_deliveries();
        for (Leased { offset, deliveries, .. }, bytes) in self.leased.drain(..).zip(records.iter()) {
            let Some(bytes) = bytes else {
                damaged.push(offset);
                continue;
            };
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
        lane.settle(holder.grant().owner, damaged);
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
        Ok(())
    }
}

fn read(store: &Store, queue: &Queue, leased: &[Leased], mode: ReadMode) -> Result<Records, StorageError> {
    let entries: Vec<_> = leased.iter().map(|leased| (leased.offset, leased.entry)).collect();
    store.read(&queue.index, &entries, mode)
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
