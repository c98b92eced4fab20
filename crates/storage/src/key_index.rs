//! The key index: finds records by key and time, in files laid out as RocketMQ's IndexFile (see `format::key_index`).
//!
//! **Owns** the files in `index`. Only the newest grows; its hash slots are kept in memory (20 MB by default), its entries are
//! written in order. **On a crash** slots are rebuilt from the entries, and entries above the checkpoint from the log.

mod reopen;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, Timestamp};
use format::key_index::{ENTRY_SIZE, HEADER_SIZE, Header, IndexEntry, SLOT_SIZE, Shape, file_name, is_file_name};
use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
pub(crate) use reopen::Sure;

/// Bytes of entries kept in memory before they are written.
const PENDING_SIZE_MAX: usize = 256 * 1024;

/// Longest chain of one slot that a look-up follows. Longer ones come from damage or from deliberate hash collisions.
const CHAIN_LENGTH_MAX: usize = 100_000;

/// A key of a record, to be indexed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) hash: u32,
    pub(crate) log_offset: LogOffset,
    /// When its record was stored.
    pub(crate) time: Timestamp,
}

/// The newest file, which takes new keys.
#[derive(Debug)]
struct Growing {
    file: Arc<DiskFile>,
    header: Header,
    slots: Vec<u32>,
    /// Encoded entries not yet written; the first one's number is `pending_from`.
    pending: Vec<u8>,
    pending_from: u32,
    slots_changed: bool,
}

#[derive(Debug, Clone)]
struct Sealed {
    file: Arc<DiskFile>,
    header: Header,
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    disk: Disk,
    directory: PathBuf,
    shape: Shape,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sealed: Vec<Sealed>,
    growing: Option<Growing>,
    /// Full files that still need a sync.
    unsynced: Vec<Arc<DiskFile>>,
}

impl KeyIndex {
    /// Opens the existing files with the keys that are `sure` to be durable; the caller adds all later ones again. If a file is
    /// unusable, all are given to `set_aside`.
    pub(crate) fn open(
        disk: &Disk,
        directory: PathBuf,
        shape: Shape,
        sure: Sure<'_>,
        set_aside: &mut dyn FnMut(&Path) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let mut files = Vec::new();
        for name in disk.list(&directory)?.into_iter().filter(|name| is_file_name(name)) {
            files.push(Arc::new(disk.open(&directory.join(name))?));
        }
        let is_unusable = |file: &Arc<DiskFile>| file.size().map_or(true, |size| size != shape.file_size() && size > 0);
        let opened = if files.iter().any(is_unusable) {
            None
        } else {
            match State::open(&files, disk, &directory, shape, sure) {
                Err(error) if error.is_unreadable() => None,
                opened => Some(opened?),
            }
        };
        let state = match opened {
            Some(state) => state,
            None => {
                // Of another size, or unreadable: the caller indexes everything again from the log.
                for name in disk.list(&directory)?.into_iter().filter(|name| is_file_name(name)) {
                    set_aside(&directory.join(name))?;
                }
                State::default()
            }
        };
        Ok(Self { disk: disk.clone(), directory, shape, state: Mutex::new(state) })
    }

    /// Moves keys from the front of `keys` into the index. After an error the rest, the failed key included, is still in `keys`.
    pub(crate) fn add(&self, keys: &mut VecDeque<Key>) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        while let Some(key) = keys.front() {
            self.add_key(&mut state, *key)?;
            keys.pop_front();
        }
        Ok(())
    }

    /// Adds one key during recovery.
    pub(crate) fn restore(&self, hash: u32, log_offset: LogOffset, time: Timestamp) -> Result<(), StorageError> {
        self.add_key(&mut self.state.lock(), Key { hash, log_offset, time })
    }

    fn add_key(&self, state: &mut State, key: Key) -> Result<(), StorageError> {
        if let Some(full) = state.growing.as_mut().filter(|growing| growing.is_full(self.shape)) {
            // Before it is sealed: look-ups in a sealed file read only the disk.
            full.flush(self.shape)?;
        }
        if let Some(Growing { file, header, .. }) = state.growing.take_if(|growing| growing.is_full(self.shape)) {
            // Synced later: look-ups take this lock, and must not wait for a sync.
            state.unsynced.push(file.clone());
            state.sealed.push(Sealed { file, header });
        }
        let growing = match &mut state.growing {
            Some(growing) => growing,
            none => none.insert(Growing::create(&self.disk, &self.directory, self.shape, key.time)?),
        };
        growing.add(key, self.shape)
    }

    /// Writes what is only in memory. Returns the files written to since the last call; the caller has to sync them.
    pub(crate) fn flush(&self) -> Result<Vec<Arc<DiskFile>>, StorageError> {
        let mut state = self.state.lock();
        let mut written = Vec::new();
        if let Some(growing) = &mut state.growing {
            growing.flush(self.shape)?;
            written.push(growing.file.clone());
        }
        written.append(&mut state.unsynced);
        Ok(written)
    }

    /// Calls `accept` with log offsets of records that have a key of this hash and were stored within the times, newest first, until
    /// it has accepted `count`. Hashes collide, so it must check the key.
    pub(crate) fn find(
        &self,
        hash: u32,
        (begin, end): (Timestamp, Timestamp),
        count: usize,
        mut accept: impl FnMut(LogOffset) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let mut candidates = Vec::new();
        let sealed = {
            let state = self.state.lock();
            if let Some(growing) = &state.growing {
                growing.find(hash, begin, end, self.shape, &mut candidates)?;
            }
            state.sealed.clone()
        };
        let mut accepted = 0;
        let mut older = sealed.iter().rev();
        loop {
            for candidate in candidates.drain(..) {
                accepted += usize::from(accept(candidate)?);
                if accepted >= count {
                    return Ok(());
                }
            }
            let Some(file) = older.next() else { return Ok(()) };
            if file.header.first_time <= end.0 && file.header.last_time >= begin.0 {
                file.find(hash, begin, end, self.shape, &mut candidates)?;
            }
        }
    }

    /// Store time and log offset of the last record indexed.
    pub(crate) fn last(&self) -> (Timestamp, LogOffset) {
        let state = self.state.lock();
        let header = state.growing.as_ref().map(|growing| growing.header);
        let header = header.or(state.sealed.last().map(|last| last.header)).unwrap_or_default();
        (Timestamp(header.last_time), LogOffset(header.last_offset))
    }

    /// Removes files whose records all lie below `log_first`, oldest first. After an error the rest is left for the next call.
    pub(crate) fn drop_before(&self, log_first: LogOffset) -> Result<(), StorageError> {
        let is_gone = |file: &&Sealed| file.header.last_offset < log_first.0;
        let gone: Vec<_> = self.state.lock().sealed.iter().filter(is_gone).cloned().collect();
        for file in gone {
            self.disk.remove_file(file.file.path())?;
            self.state.lock().sealed.retain(|one| one.file.path() != file.file.path());
        }
        Ok(())
    }
}

impl Growing {
    fn create(disk: &Disk, directory: &Path, shape: Shape, time: Timestamp) -> Result<Self, StorageError> {
        // The name must sort after all others, since RocketMQ sorts by name. Its own names are local times, which may be ahead.
        let names = disk.list(directory)?;
        let newest = names.iter().rfind(|name| is_file_name(name)).and_then(|name| name.parse::<u64>().ok());
        let name = file_name(time).max(newest.map_or(String::new(), |newest| format!("{:017}", newest + 1)));
        let file = Arc::new(disk.open_sized(&directory.join(name), shape.file_size(), false)?);
        let header = Header { next_entry: 1, ..Header::default() };
        let slots = vec![0; shape.slot_count as usize];
        Ok(Self { file, header, slots, pending: Vec::new(), pending_from: 1, slots_changed: false })
    }

    const fn is_full(&self, shape: Shape) -> bool {
        self.header.next_entry >= shape.entry_count
    }

    fn add(&mut self, Key { hash, log_offset, time }: Key, shape: Shape) -> Result<(), StorageError> {
        // Before anything is changed, so that a failed key is not half added.
        if self.pending.len() >= PENDING_SIZE_MAX {
            self.write_pending(shape)?;
        }
        if self.header.next_entry <= 1 {
            self.header.first_time = time.0;
            self.header.first_offset = log_offset.0;
        }
        let number = self.header.next_entry;
        let seconds = (time.0.saturating_sub(self.header.first_time) / 1000).min(i32::MAX as u64) as u32;
        let Some(slot) = self.slots.get_mut((hash % shape.slot_count) as usize) else { return Ok(()) };
        let entry = IndexEntry { hash, log_offset: log_offset.0, seconds, previous: *slot };
        self.header.used_slots += u32::from(*slot == 0);
        *slot = number;
        entry.encode(&mut self.pending);
        self.slots_changed = true;
        self.header.next_entry += 1;
        self.header.last_time = self.header.last_time.max(time.0);
        self.header.last_offset = log_offset.0;
        Ok(())
    }

    fn write_pending(&mut self, shape: Shape) -> Result<(), StorageError> {
        self.file.write_at(&self.pending, shape.entry_at(self.pending_from))?;
        self.pending_from = self.header.next_entry;
        self.pending.clear();
        Ok(())
    }

    /// Writes entries, then slots, then the header, so that the header never counts entries that are not in the file.
    fn flush(&mut self, shape: Shape) -> Result<(), StorageError> {
        self.write_pending(shape)?;
        if self.slots_changed {
            const SLOTS_AT_ONCE: usize = 64 * 1024;
            for (number, part) in self.slots.chunks(SLOTS_AT_ONCE).enumerate() {
                if part.iter().any(|&slot| slot != 0) {
                    let bytes: Vec<u8> = part.iter().flat_map(|slot| slot.to_be_bytes()).collect();
                    self.file.write_at(&bytes, (HEADER_SIZE + number * SLOTS_AT_ONCE * SLOT_SIZE) as u64)?;
                }
            }
            self.file.write_at(&self.header.encode(), 0)?;
            // Last: after an error the next flush writes everything again.
            self.slots_changed = false;
        }
        Ok(())
    }

    fn find(
        &self,
        hash: u32,
        begin: Timestamp,
        end: Timestamp,
        shape: Shape,
        found: &mut Vec<LogOffset>,
    ) -> Result<(), StorageError> {
        let newest = self.slots.get((hash % shape.slot_count) as usize).copied().unwrap_or_default();
        follow_chain(newest, hash, &self.header, (begin, end), found, |number| {
            if number >= self.pending_from {
                let at = (number - self.pending_from) as usize * ENTRY_SIZE;
                return Ok(self.pending.get(at..).and_then(IndexEntry::decode));
            }
            read_entry(&self.file, number, shape)
        })
    }
}

impl Sealed {
    fn find(
        &self,
        hash: u32,
        begin: Timestamp,
        end: Timestamp,
        shape: Shape,
        found: &mut Vec<LogOffset>,
    ) -> Result<(), StorageError> {
        let mut slot = [0; SLOT_SIZE];
        self.file.read_at(&mut slot, HEADER_SIZE as u64 + u64::from(hash % shape.slot_count) * SLOT_SIZE as u64)?;
        let newest = u32::from_be_bytes(slot);
        follow_chain(newest, hash, &self.header, (begin, end), found, |number| read_entry(&self.file, number, shape))
    }
}

fn read_entry(file: &DiskFile, number: u32, shape: Shape) -> Result<Option<IndexEntry>, StorageError> {
    let mut bytes = [0; ENTRY_SIZE];
    file.read_at(&mut bytes, shape.entry_at(number))?;
    Ok(IndexEntry::decode(&bytes))
}

fn follow_chain(
    newest: u32,
    hash: u32,
    header: &Header,
    (begin, end): (Timestamp, Timestamp),
    found: &mut Vec<LogOffset>,
    mut read: impl FnMut(u32) -> Result<Option<IndexEntry>, StorageError>,
) -> Result<(), StorageError> {
    let mut number = newest;
    for _ in 0..CHAIN_LENGTH_MAX {
        if number == 0 || number >= header.next_entry {
            return Ok(());
        }
        let Some(entry) = read(number)? else { return Ok(()) };
        // Entries keep whole seconds, so this accepts up to a second too much. The caller compares the record's own time.
        let time = header.first_time + u64::from(entry.seconds) * 1000;
        if entry.hash == hash && time <= end.0 && time + 1000 > begin.0 {
            found.push(LogOffset(entry.log_offset));
        }
        if entry.previous >= number {
            return Ok(());
        }
        number = entry.previous;
    }
    Ok(())
}

/// Reads the header of an index file.
pub fn read_header(file: &DiskFile) -> Result<Header, StorageError> {
    let mut bytes = [0; HEADER_SIZE];
    file.read_at(&mut bytes, 0)?;
    Header::decode(&bytes)
        .map_err(|error| StorageError::Damaged { path: file.path().to_owned(), problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    const SHAPE: Shape = Shape { slot_count: 7, entry_count: 11 };

    fn find(index: &KeyIndex, hash: u32) -> Vec<u64> {
        let mut found = Vec::new();
        let all = (Timestamp(0), Timestamp(u64::MAX / 2));
        index
            .find(hash, all, 100, |offset| {
                found.push(offset.0);
                Ok(true)
            })
            .expect("finds");
        found
    }

    #[test]
    fn keys_are_found_newest_first_across_files_and_after_reopening() {
        let disk = Disk::new(MemoryDisk::new());
        let directory = || PathBuf::from("/index");
        let all = Sure { below: LogOffset(u64::MAX), has_key: &|_, _| Ok(true) };
        let index = KeyIndex::open(&disk, directory(), SHAPE, all, &mut |_| Ok(())).expect("opens");
        assert_eq!(index.last().1, LogOffset(0));
        for number in 0..25_u64 {
            let hash = (number % 5) as u32;
            index.restore(hash, LogOffset(number * 100), Timestamp(1_000_000 + number)).expect("adds");
        }
        let expected = vec![2300, 1800, 1300, 800, 300];
        assert_eq!(find(&index, 3), expected);
        assert_eq!(find(&index, 3 + 7), Vec::<u64>::new(), "same slot, other hash");
        index.flush().expect("flushes");
        let reopened = KeyIndex::open(&disk, directory(), SHAPE, all, &mut |_| Ok(())).expect("opens");
        assert_eq!((find(&reopened, 3), reopened.last().1), (expected, LogOffset(2400)));
        reopened.drop_before(LogOffset(1000)).expect("drops");
        assert_eq!(find(&reopened, 3), vec![2300, 1800, 1300]);
    }

    #[test]
    fn files_are_in_the_order_of_their_records_whatever_their_names() {
        let disk = Disk::new(MemoryDisk::new());
        let directory = || PathBuf::from("/index");
        let all = Sure { below: LogOffset(u64::MAX), has_key: &|_, _| Ok(true) };
        let index = KeyIndex::open(&disk, directory(), SHAPE, all, &mut |_| Ok(())).expect("opens");
        let restore = |index: &KeyIndex, number: u64| {
            index.restore(3, LogOffset(number * 100), Timestamp(1_000_000 + number)).expect("adds");
        };
        (0..15).for_each(|number| restore(&index, number));
        index.flush().expect("flushes");
        // A Java broker ahead of UTC wrote the first of them.
        let names = disk.list(&directory()).expect("lists");
        let ahead = directory().join("19700101080000000");
        drop(disk.open_sized(&ahead, SHAPE.file_size(), false).expect("makes"));
        let bytes = disk.read_file(&directory().join(&names[0])).expect("reads").expect("a file");
        disk.open(&ahead).expect("opens").write_at(&bytes, 0).expect("writes");
        disk.remove_file(&directory().join(&names[0])).expect("removes");
        let reopened = KeyIndex::open(&disk, directory(), SHAPE, all, &mut |_| Ok(())).expect("opens");
        assert_eq!(reopened.last().1, LogOffset(1400));
        (15..35).for_each(|number| restore(&reopened, number));
        assert_eq!(find(&reopened, 3), (0..35).rev().map(|number| number * 100).collect::<Vec<_>>());
        // Whoever goes by names finds the newest last.
        let names = disk.list(&directory()).expect("lists");
        assert!(names.iter().skip(2).all(|name| name.as_str() > "19700101080000000"), "{names:?}");
    }

    /// A power cut may leave half of an entry that lies in two sectors, and half of what was there before.
    #[test]
    fn half_an_entry_is_no_entry_after_later_starts_either() {
        let disk = Disk::new(MemoryDisk::new());
        let shape = Shape { slot_count: 7, entry_count: 40 };
        let open = |sure| KeyIndex::open(&disk, "/index".into(), shape, sure, &mut |_| Ok(())).expect("opens");
        let restore = |index: &KeyIndex, number: u64| {
            index.restore((number % 5) as u32, LogOffset(number * 100), Timestamp(1_000_000)).expect("adds");
        };
        let all = || Sure { below: LogOffset(u64::MAX), has_key: &|_, _| Ok(true) };
        let index = open(all());
        (1..=22).for_each(|number| restore(&index, number));
        let file = index.flush().expect("flushes").remove(0);
        assert!(reopen::is_across_sectors(shape, 22));
        let half = [&4_u32.to_be_bytes()[..], &2150_u64.to_be_bytes()].concat();
        file.write_at(&half, shape.entry_at(22)).expect("writes");
        let index = open(Sure { below: LogOffset(2200), has_key: &|_, _| Ok(false) });
        assert_eq!((index.last().1, find(&index, 4)), (LogOffset(2100), vec![1900, 1400, 900, 400]));
        restore(&index, 22);
        index.flush().expect("flushes");
        let index = open(all());
        assert_eq!((find(&index, 4), find(&index, 2)), (vec![1900, 1400, 900, 400], vec![2200, 1700, 1200, 700, 200]));
    }

    #[test]
    fn a_look_up_takes_in_the_last_second_and_no_more_than_it_was_asked_for() {
        let disk = Disk::new(MemoryDisk::new());
        let all = Sure { below: LogOffset(u64::MAX), has_key: &|_, _| Ok(true) };
        let index = KeyIndex::open(&disk, "/index".into(), SHAPE, all, &mut |_| Ok(())).expect("opens");
        for (offset, time) in [(0, 1_000_000), (100, 1_000_999), (200, 1_001_500), (300, 1_001_999)] {
            index.restore(3, LogOffset(offset), Timestamp(time)).expect("adds");
        }
        let find = |begin, end, count| {
            let mut found = Vec::new();
            let accept = |offset: LogOffset| {
                found.push(offset.0);
                Ok(true)
            };
            index.find(3, (Timestamp(begin), Timestamp(end)), count, accept).expect("finds");
            found
        };
        // Whole seconds are kept: who reads the record looks at the rest.
        assert_eq!(find(1_001_999, 1_001_999, 10), [300, 200], "up to the last of its milliseconds");
        assert_eq!(find(1_000_000, 1_000_000, 10), [100, 0], "and from the first");
        assert_eq!(find(1_002_000, 2_000_000, 10), [0; 0]);
        assert_eq!(find(0, 999_999, 10), [0; 0]);
        for count in 1..4 {
            assert_eq!(find(0, 2_000_000, count).len(), count);
        }
    }
}
