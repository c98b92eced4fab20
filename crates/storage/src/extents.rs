//! Old stretches of the log in memory: each is read from the disk once for all who read it at about the same time, and ahead of whoever
//! reads on.
//!
//! Owns the extents that were read lately, the memory they lie in, and the list of those to be read ahead. **Always holds**: an extent lies
//! whole below what is written, so it never changes; none is read by two threads at one time; the bytes in here are bounded, and what
//! [`Records`](crate::records) keep of extents that are no longer here by their own size. **On a crash** nothing is lost: all of it is
//! on the disk.
//!
//! The capacity starts small, so that the extents of a single reader stay in the processor's cache. It doubles when an evicted extent is
//! wanted again, and halves when half would have done.

mod memory;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;

use crate::error::StorageError;
use memory::Memory;

/// Bytes of an extent: large enough for a disk to be read at its rate, small enough for hundreds of readers far from each other.
pub(crate) const EXTENT_SIZE: u64 = 256 * 1024;

/// Least capacity, in extents: 4 MiB.
const EXTENTS_MIN: usize = 16;
/// Greatest capacity, in extents: 128 MiB.
const EXTENTS_MAX: usize = 512;
/// Ghost entries, which remember that an extent was there: 1 GiB of the log.
const GHOSTS_MAX: usize = 4 * 1024;
/// Share of the capacity for extents that were hit again. The rest is evicted in order of arrival: an extent has to stay until the slowest
/// of the consumers that read together has read it.
const HOT_SHARE: f64 = 0.1;
/// So often the whole cache is replaced, without a sign that half of it would not do, before its capacity is halved.
const TURNOVERS_BEFORE_FEWER: usize = 8;

/// Extents read ahead of a reader that is known to read on. Where many readers are far from each other it is fewer, down to one: their
/// extents would evict each other.
const AHEAD_MAX: usize = 8;
/// Input/output error, in Linux.
const EIO: i32 = 5;
/// Extents that the disk could not read as a whole and that are remembered.
const UNREADABLE_MAX: usize = 1024;

/// Extents to be read ahead at one time. Older wishes are forgotten: their readers have come there themselves.
const WANTED_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Extents {
    cache: Cache<u64, Arc<Extent>>,
    /// Extents read lately, evicted since or not.
    ghosts: Cache<u64, ()>,
    /// Extents that the disk cannot read as a whole, which takes a disk long to find out. It is asked once: their records are read one by one.
    unreadable: Cache<u64, ()>,
    capacity: AtomicUsize,
    /// Extents read so far.
    count_read: AtomicUsize,
    /// `count_read` when the present capacity last proved necessary.
    needed_at: AtomicUsize,
    /// Extents that somebody has come to so far.
    count_used: AtomicUsize,
    memory: Arc<Memory>,
    /// Numbers of extents to be read ahead.
    wanted: Mutex<VecDeque<u64>>,
    /// Who reads ahead, if anybody does.
    reader: OnceLock<Waker>,
}

#[derive(Debug)]
struct Extent {
    bytes: Bytes,
    /// Extents read before this one.
    read_before: usize,
    /// `count_used` once somebody has come to it, who has the next extents read; 0 before.
    used_as: AtomicUsize,
}

impl Extents {
    pub(crate) fn new() -> Self {
        Self {
            cache: empty_cache(),
            ghosts: Cache::new(GHOSTS_MAX),
            unreadable: Cache::new(UNREADABLE_MAX),
            capacity: AtomicUsize::new(EXTENTS_MIN),
            count_read: AtomicUsize::new(0),
            needed_at: AtomicUsize::new(0),
            count_used: AtomicUsize::new(0),
            memory: Arc::default(),
            wanted: Mutex::default(),
            reader: OnceLock::new(),
        }
    }

    /// Number of the extent that holds a log offset.
    pub(crate) const fn number(offset: u64) -> u64 {
        offset / EXTENT_SIZE
    }

    /// Whether an extent lies whole below `written`.
    pub(crate) const fn is_written(number: u64, written: u64) -> bool {
        (number + 1) * EXTENT_SIZE <= written
    }

    /// An extent, if it is in memory. `written` bounds what is read ahead of whoever asks.
    pub(crate) fn get(&self, number: u64, written: u64) -> Option<Bytes> {
        Some(self.used(number, &*self.cache.get(&number)?, written))
    }

    /// An extent, which `read` fills if nobody has read it. An error that `is_unreadable` if it cannot be read as a whole.
    pub(crate) fn get_or_read(
        &self,
        number: u64,
        written: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), StorageError>,
    ) -> Result<Bytes, StorageError> {
        let extent = self.cache.get_or_insert_with(&number, || self.read(number, read))?;
        Ok(self.used(number, &extent, written))
    }

    /// The disk was gone, and it was not the extents that could not be read.
    pub(crate) fn forget_unreadable(&self) {
        self.unreadable.clear();
    }

    /// Has whoever reads ahead be woken by `waker` when there is something to read.
    pub(crate) fn set_reader(&self, waker: Waker) {
        let _ = self.reader.set(waker);
    }

    /// The next extent to be read ahead.
    pub(crate) fn next_wanted(&self) -> Option<u64> {
        self.wanted.lock().pop_front()
    }

    /// Reads an extent for whoever comes to it.
    pub(crate) fn read_ahead(
        &self,
        number: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        self.cache.get_or_insert_with(&number, || self.read(number, read)).map(drop)
    }

    fn read(
        &self,
        number: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), StorageError>,
    ) -> Result<Arc<Extent>, StorageError> {
        if self.unreadable.get(&number).is_some() {
            return Err(unreadable());
        }
        let mut buffer = self.memory.take().map_err(StorageError::io("get memory to read", Path::new("the log")))?;
        read(buffer.bytes()).inspect_err(|error| {
            if error.is_unreadable() {
                self.unreadable.insert(number, ());
            }
        })?;
        let read_before = self.count_read.fetch_add(1, Ordering::Relaxed);
        self.note_read(number, read_before);
        Ok(Arc::new(Extent { bytes: buffer.freeze(), read_before, used_as: AtomicUsize::new(0) }))
    }

    /// Somebody reads in an extent.
    fn used(&self, number: u64, extent: &Extent, written: u64) -> Bytes {
        let count_read = self.count_read.load(Ordering::Relaxed);
        if count_read.saturating_sub(extent.read_before) > self.capacity.load(Ordering::Relaxed) / 2 {
            // With half the capacity it would have been evicted.
            self.needed_at.store(count_read, Ordering::Relaxed);
        }
        if extent.used_as.load(Ordering::Relaxed) == 0 {
            let now = self.count_used.fetch_add(1, Ordering::Relaxed) + 1;
            if extent.used_as.swap(now, Ordering::Relaxed) == 0 {
                self.want_next(number, now, written);
            }
        }
        extent.bytes.clone()
    }

    /// Has the extents read that whoever has come to this one will come to next.
    fn want_next(&self, number: u64, now: usize, written: u64) {
        let Some(reader) = self.reader.get() else { return };
        let next =
            (number + 1..).take(self.count_ahead(number, now)).take_while(|next| Self::is_written(*next, written));
        let mut is_more = false;
        for number in next.filter(|next| self.cache.peek(next).is_none()) {
            let mut wanted = self.wanted.lock();
            if wanted.contains(&number) {
                continue;
            }
            if wanted.len() == WANTED_MAX {
                wanted.pop_front();
            }
            wanted.push_back(number);
            is_more = true;
        }
        if is_more {
            reader.wake_by_ref();
        }
    }

    /// How many extents are read ahead of whoever comes to this one. As many others were come to since the one before it as there are
    /// readers in places of their own: together they have half the capacity.
    fn count_ahead(&self, number: u64, now: usize) -> usize {
        let before = number.checked_sub(1).and_then(|before| self.cache.peek(&before));
        match before.map_or(0, |before| before.used_as.load(Ordering::Relaxed)) {
            0 => 1,
            before => {
                let readers = now.saturating_sub(before).max(1);
                (self.capacity.load(Ordering::Relaxed) / 2 / readers).clamp(1, AHEAD_MAX)
            }
        }
    }

    /// Keeps more of them if this one was evicted too soon, and fewer if for long no more were needed.
    fn note_read(&self, number: u64, read_before: usize) {
        if self.ghosts.get(&number).is_some() {
            self.resize((self.capacity.load(Ordering::Relaxed) * 2).min(EXTENTS_MAX));
        }
        self.ghosts.insert(number, ());
        let capacity = self.capacity.load(Ordering::Relaxed);
        if read_before.saturating_sub(self.needed_at.load(Ordering::Relaxed)) >= capacity * TURNOVERS_BEFORE_FEWER {
            self.resize((capacity / 2).max(EXTENTS_MIN));
        }
    }

    /// Threads that resize at the same time may leave `capacity` and the cache apart until the next resize.
    fn resize(&self, capacity: usize) {
        self.needed_at.store(self.count_read.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            self.cache.set_capacity(capacity as u64);
        }
    }
}

/// What the disk said when it was asked.
fn unreadable() -> StorageError {
    StorageError::io("read", Path::new("the log"))(io::Error::from_raw_os_error(EIO))
}

fn empty_cache() -> Cache<u64, Arc<Extent>> {
    let mut options = OptionsBuilder::new();
    options.estimated_items_capacity(EXTENTS_MIN).weight_capacity(EXTENTS_MIN as u64).hot_allocation(HOT_SHARE);
    let with = |options| Cache::with_options(options, Default::default(), Default::default(), Default::default());
    options.build().map_or_else(|_| Cache::new(EXTENTS_MIN), with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extents: &Extents, number: u64) -> bool {
        let mut was_read = false;
        let read = |bytes: &mut [u8]| {
            was_read = true;
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            Ok(())
        };
        let bytes = extents.get_or_read(number, u64::MAX, read).expect("reads");
        assert_eq!((bytes.len() as u64, &bytes[..8]), (EXTENT_SIZE, &number.to_le_bytes()[..]));
        was_read
    }

    /// Reads of the disk, where each of `readers` goes through `steps` extents, and reader r is at extent `extent_of(step, r)`.
    fn count_reads(readers: u64, steps: u64, extent_of: impl Fn(u64, u64) -> u64) -> u64 {
        let extents = Extents::new();
        let each = (0..steps).flat_map(|step| (0..readers).map(move |reader| (step, reader)));
        each.map(|(step, reader)| u64::from(read(&extents, extent_of(step, reader)))).sum()
    }

    #[test]
    fn readers_that_go_along_together_have_each_extent_read_once() {
        for (readers, apart) in [(1, 0), (8, 0), (8, 1), (8, 3), (40, 1)] {
            let reads = count_reads(readers, 2000, |step, reader| 1000 + step - reader * apart);
            assert!(reads <= 2000 + readers * apart + 100, "{readers} readers {apart} apart: {reads}");
        }
        // One queue had to wait for the disk, and stays behind.
        let reads = count_reads(2, 40_000, |step, reader| step - reader * (step / 10).min(300));
        assert!(reads <= 40_400, "a reader that stays behind: {reads}");
        // Queues of a topic that were not written to quite alike.
        for (readers, percent) in [(2, 1), (3, 1), (3, 2), (2, 4)] {
            let reads = count_reads(readers, 2500, |step, reader| step - step * reader * percent / 100);
            assert!(reads <= 2600, "{readers} readers that drift apart by {percent} %: {reads}");
        }
    }

    #[test]
    fn as_many_are_kept_as_are_wanted_back_and_no_more() {
        let extents = Extents::new();
        let kept = || (extents.capacity.load(Ordering::Relaxed), extents.cache.len());
        (0..1000).for_each(|number| assert!(read(&extents, number)));
        assert!(kept() <= (EXTENTS_MIN, EXTENTS_MIN + 1), "a single reader needs no more: {:?}", kept());
        for _ in 0..4 {
            (2000..2400).for_each(|number| _ = read(&extents, number));
        }
        assert!(kept().0 >= 400 && kept().1 <= EXTENTS_MAX, "readers far apart do: {:?}", kept());
        (10_000..60_000).for_each(|number| assert!(read(&extents, number)));
        assert!(kept() <= (EXTENTS_MIN, EXTENTS_MIN + 1), "until they are gone: {:?}", kept());
    }

    /// A store in which somebody reads ahead.
    fn ahead() -> Extents {
        let extents = Extents::new();
        extents.set_reader(Waker::noop().clone());
        extents
    }

    fn wanted(extents: &Extents) -> Vec<u64> {
        std::iter::from_fn(|| extents.next_wanted()).collect()
    }

    #[test]
    fn who_reads_on_has_the_next_extents_read_once() {
        let extents = ahead();
        read(&extents, 7);
        assert_eq!(wanted(&extents), [8], "it may have been a single read");
        read(&extents, 7);
        assert_eq!(wanted(&extents), [0; 0], "as before");
        extents.read_ahead(8, |_| Ok(())).expect("reads");
        assert_eq!(wanted(&extents), [0; 0], "nobody has come there");
        assert!(extents.get(8, u64::MAX).is_some());
        assert_eq!(wanted(&extents), (9..17).collect::<Vec<_>>());
        extents.read_ahead(9, |_| Ok(())).expect("reads");
        extents.get(9, 12 * EXTENT_SIZE);
        assert_eq!(wanted(&extents), [10, 11], "the log ends there");
    }

    #[test]
    fn the_more_readers_are_far_from_each_other_the_less_is_read_ahead_of_each() {
        let extents = ahead();
        for (readers, count) in [(1, 8), (2, 4), (4, 2), (8, 1), (12, 1)] {
            let first = |reader: u64| 1_000_000 * readers + 1000 * reader;
            (0..readers).for_each(|reader| _ = read(&extents, first(reader)));
            wanted(&extents);
            for reader in 0..readers {
                read(&extents, first(reader) + 1);
                assert_eq!(wanted(&extents).len(), count, "{readers} readers");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_tried_again_by_who_comes_to_it() {
        let extents = ahead();
        let failed = extents.read_ahead(1, |_| Err(StorageError::WouldBlock));
        assert!(failed.is_err() && extents.get(1, u64::MAX).is_none());
        assert!(read(&extents, 1));
    }

    #[test]
    fn a_disk_that_cannot_read_an_extent_is_asked_once() {
        let extents = Extents::new();
        let asked = AtomicUsize::new(0);
        let ask = |number| {
            let outcome = extents.get_or_read(number, u64::MAX, |_| {
                asked.fetch_add(1, Ordering::Relaxed);
                Err(unreadable())
            });
            assert!(outcome.is_err_and(|error| error.is_unreadable()));
        };
        (0..3).for_each(|_| ask(7));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // Not even those that want it at the same time, who wait for each other.
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| ask(8))));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert!(read(&extents, 9), "others are read as ever");
    }

    #[test]
    fn wishes_are_bounded() {
        let extents = ahead();
        (0..1000).for_each(|number| assert!(read(&extents, 10 * number)));
        assert_eq!(wanted(&extents).len(), WANTED_MAX);
    }
}
