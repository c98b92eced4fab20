//! What a disk is doing now, so that an operation that does not come back is noticed.
//!
//! **Owns** a table of the operations under way, with the path of each. There is no clock in it: whoever has one looks from time to time
//! and says when that is. An operation that one look after the other finds has waited for the time between them. **Always holds**: an
//! operation of an open file takes no lock and no memory for this; the lock of the table is held over no operation of the disk, so that
//! looks, and whoever asks what they found, wait for no disk; the table has room for as many operations as a broker has threads. **On a crash** nothing is lost that another process needs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Monotonic;
use parking_lot::Mutex;

use super::Operation;

/// From so many milliseconds on a disk is said not to answer: seconds are usual where much is synced at once.
pub const STALLED_MS: u64 = 10_000;

/// Most milliseconds that count between two looks. While the machine sleeps, or whoever looks gets no processor, no disk is to blame.
const LOOK_GAP_MAX_MS: u64 = 2000;

/// Operations that are known at one time: those of a broker's 128 jobs, of its own threads and of network threads. An operation that finds
/// no free slot is not known.
const SLOTS: usize = 256;

/// The word of a slot: whether it is taken, the operation, the number of its path, and how often the slot was taken, so that two
/// operations on one file are told apart.
const IS_TAKEN: u64 = 1;
const OPERATION_SHIFT: u32 = 1;
const OPERATION_MASK: u64 = 0x7F;
const PATH_SHIFT: u32 = 8;
const PATH_MASK: u64 = 0xFFFF_FFFF;
const COUNT_SHIFT: u32 = 40;

/// An operation that is under way for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What is done.
    pub operation: Operation,
    /// To which file or directory.
    pub path: Arc<Path>,
    /// For how many milliseconds at least.
    pub waited_ms: u64,
}

impl Stall {
    /// Whether it is so long that the disk is said not to answer.
    pub const fn is_long(&self) -> bool {
        self.waited_ms >= STALLED_MS
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} has taken {} s so far", self.operation.doing(), self.path.display(), self.waited_ms / 1000)
    }
}

/// The table of one disk; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Arc<Table>);

#[derive(Debug)]
struct Table {
    slots: [Slot; SLOTS],
    known: Mutex<Known>,
}

/// A cache line of its own: threads that take slots beside each other do not wait for each other's.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(AtomicU64);

#[derive(Debug)]
struct Known {
    paths: Paths,
    looked: Option<Monotonic>,
    /// What the last look found in each slot.
    seen: [Seen; SLOTS],
}

/// The word of a slot, and how long it has been the same.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    word: u64,
    waited_ms: u64,
}

/// Paths by number. Those of files that are closed are used again.
#[derive(Debug, Default)]
struct Paths {
    numbered: Vec<Option<Arc<Path>>>,
    free: Vec<usize>,
}

/// A path whose operations are noted, for as long as this lives.
#[derive(Debug)]
pub(super) struct NotedPath {
    waits: Waits,
    number: usize,
    path: Arc<Path>,
}

/// An operation under way, until this is dropped.
pub(super) struct UnderWay<'a>(Option<&'a AtomicU64>);

impl Default for Table {
    fn default() -> Self {
        let known = Known { paths: Paths::default(), looked: None, seen: [Seen::default(); SLOTS] };
        Self { slots: std::array::from_fn(|_| Slot::default()), known: Mutex::new(known) }
    }
}

impl Waits {
    /// Has operations on `path` noted.
    pub(super) fn note(&self, path: &Path) -> NotedPath {
        let path: Arc<Path> = path.into();
        let number = self.0.known.lock().paths.add(path.clone());
        NotedPath { waits: self.clone(), number, path }
    }

    /// Looks what is under way at `now`.
    pub(super) fn look(&self, now: Monotonic) {
        let mut known = self.0.known.lock();
        let gap_ms = known.looked.map_or(0, |before| now.ms_since(before)).min(LOOK_GAP_MAX_MS);
        known.looked = Some(now);
        for (slot, seen) in self.0.slots.iter().zip(&mut known.seen) {
            let word = slot.0.load(Ordering::Relaxed);
            let waited_ms = if seen.word == word { seen.waited_ms + gap_ms } else { 0 };
            *seen = Seen { word, waited_ms };
        }
    }

    /// Of what the last look found and is still under way, what had waited longest by then.
    pub(super) fn stall(&self) -> Option<Stall> {
        let known = self.0.known.lock();
        let still = |(slot, seen): &(&Slot, &Seen)| {
            seen.word & IS_TAKEN != 0 && seen.waited_ms > 0 && slot.0.load(Ordering::Relaxed) == seen.word
        };
        let (_, longest) = self.0.slots.iter().zip(&known.seen).filter(still).max_by_key(|(_, seen)| seen.waited_ms)?;
        let operation = *Operation::ALL.get((longest.word >> OPERATION_SHIFT & OPERATION_MASK) as usize)?;
        // The path of an operation under way is known: it is taken out under this lock, and only after that.
        let path = known.paths.get((longest.word >> PATH_SHIFT & PATH_MASK) as usize)?;
        Some(Stall { operation, path, waited_ms: longest.waited_ms })
    }
}

impl Paths {
    fn add(&mut self, path: Arc<Path>) -> usize {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.numbered.get_mut(number)
        {
            *place = Some(path);
            return number;
        }
        self.numbered.push(Some(path));
        self.numbered.len() - 1
    }

    fn get(&self, number: usize) -> Option<Arc<Path>> {
        self.numbered.get(number)?.clone()
    }

    fn remove(&mut self, number: usize) {
        if self.numbered.get_mut(number).and_then(Option::take).is_some() {
            self.free.push(number);
        }
    }
}

impl NotedPath {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// `operation` is under way until what this gives is dropped.
    ///
    /// Relaxed order is enough: a slot has one owner at a time, and whether its path is known is ordered by the lock of the table.
    pub(super) fn begin(&self, operation: Operation) -> UnderWay<'_> {
        let own = (self.number as u64 & PATH_MASK) << PATH_SHIFT | (operation as u64) << OPERATION_SHIFT | IS_TAKEN;
        // Operations one after the other find the slot they had before; those beside each other mostly begin at different ones.
        let (before, from) = self.waits.0.slots.split_at((self.number * 7 + operation as usize) % SLOTS);
        for Slot(slot) in from.iter().chain(before) {
            let word = slot.load(Ordering::Relaxed);
            let taken = ((word >> COUNT_SHIFT) + 1) << COUNT_SHIFT | own;
            if word & IS_TAKEN == 0 && slot.compare_exchange(word, taken, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return UnderWay(Some(slot));
            }
        }
        UnderWay(None)
    }
}

impl Drop for NotedPath {
    fn drop(&mut self) {
        self.waits.0.known.lock().paths.remove(self.number);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            // Nobody else changes a slot that is taken.
            slot.store(slot.load(Ordering::Relaxed) & !IS_TAKEN, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once a second, as often as `seconds` says.
    fn look_for(waits: &Waits, from_ms: u64, seconds: u64) {
        (0..=seconds).for_each(|second| waits.look(Monotonic(from_ms + second * 1000)));
    }

    fn told(waits: &Waits) -> Option<(Operation, String, u64)> {
        waits.stall().map(|stall| (stall.operation, stall.path.display().to_string(), stall.waited_ms))
    }

    #[test]
    fn what_is_under_way_from_look_to_look_is_told_until_it_ends() {
        let waits = Waits::default();
        let (log, queue) = (waits.note(Path::new("/log")), waits.note(Path::new("/queue")));
        look_for(&waits, 0, 3);
        let reading = log.begin(Operation::Read);
        assert_eq!(told(&waits), None);
        waits.look(Monotonic(4000));
        assert_eq!(told(&waits), None, "it may have begun just now");
        waits.look(Monotonic(5000));
        assert_eq!(told(&waits), Some((Operation::Read, "/log".to_owned(), 1000)));
        let syncing = queue.begin(Operation::Sync);
        look_for(&waits, 6000, 4);
        assert_eq!(told(&waits), Some((Operation::Read, "/log".to_owned(), 6000)), "the longest is told");
        drop(reading);
        assert_eq!(told(&waits), Some((Operation::Sync, "/queue".to_owned(), 4000)));
        drop(syncing);
        assert_eq!(told(&waits), None, "no look is needed for that");
    }

    #[test]
    fn operations_that_come_back_never_add_up() {
        let waits = Waits::default();
        let log = waits.note(Path::new("/log"));
        for second in 0..100 {
            let _writing = log.begin(Operation::Write);
            waits.look(Monotonic(second * 1000));
            assert_eq!(told(&waits), None, "{second}");
        }
    }

    #[test]
    fn time_without_looks_counts_little() {
        let waits = Waits::default();
        let log = waits.note(Path::new("/log"));
        let _writing = log.begin(Operation::Write);
        waits.look(Monotonic(0));
        waits.look(Monotonic(3_600_000));
        assert_eq!(told(&waits).map(|(.., waited_ms)| waited_ms), Some(2000), "the machine slept");
        waits.look(Monotonic(3_000_000));
        assert_eq!(
            told(&waits).map(|(.., waited_ms)| waited_ms),
            Some(2000),
            "a clock that runs backwards adds nothing"
        );
    }

    #[test]
    fn more_operations_than_slots_do_no_harm() {
        let waits = Waits::default();
        let paths: Vec<_> = (0..SLOTS + 36).map(|number| waits.note(Path::new(&format!("/{number}")))).collect();
        let mut under_way: Vec<_> = paths.iter().map(|path| path.begin(Operation::Read)).collect();
        assert_eq!(under_way.iter().filter(|one| one.0.is_some()).count(), SLOTS);
        look_for(&waits, 0, 1);
        assert!(told(&waits).is_some());
        under_way.clear();
        assert_eq!(told(&waits), None);
        assert!(paths.iter().all(|path| path.begin(Operation::Write).0.is_some()), "all slots are free again");
    }

    #[test]
    fn a_closed_file_leaves_its_number_and_never_its_name() {
        let waits = Waits::default();
        drop(waits.note(Path::new("/old")));
        let new = waits.note(Path::new("/new"));
        assert_eq!(new.number, 0);
        let _resizing = new.begin(Operation::Resize);
        look_for(&waits, 0, 12);
        let stall = waits.stall().expect("it is under way");
        assert!(stall.is_long());
        assert_eq!(stall.to_string(), "reserving space for /new has taken 12 s so far");
    }

    #[test]
    fn every_operation_is_told_as_what_it_is() {
        let waits = Waits::default();
        let path = waits.note(Path::new("/log"));
        for (number, operation) in (0_u64..).zip(Operation::ALL) {
            let _under_way = path.begin(operation);
            look_for(&waits, number * 10_000, 1);
            assert_eq!(told(&waits).map(|(told, ..)| told), Some(operation));
        }
    }
}
