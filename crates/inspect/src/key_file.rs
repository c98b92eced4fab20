//! One file of the key index: its shape, its entries in order, and at its end the slots.

use std::collections::VecDeque;
use std::path::Path;

use format::key_index::{ENTRY_SIZE, HEADER_SIZE, Header, IndexEntry, SLOT_SIZE, Shape};
use storage::disk::{Disk, DiskFile};
use storage::{StorageError, read_header};

use crate::finding::{Findings, Kind};

/// Entries read at once.
const ENTRIES_AT_ONCE: u32 = 16 * 1024;

/// Files with more slots than this are not checked for them: 64 MiB of memory.
const SLOTS_MAX: u32 = 16 * 1024 * 1024;

/// The file that is being read.
pub(crate) struct KeyFile {
    /// Path of the file as findings name it.
    pub(crate) shown: String,
    pub(crate) header: Header,
    file: DiskFile,
    shape: Shape,
    /// Number of the next entry to be read from the file.
    number: u32,
    /// Entries read and not yet taken, with their numbers.
    ahead: VecDeque<(u32, IndexEntry)>,
    /// What each slot must hold after the entries taken; empty if they are too many.
    slots: Vec<u32>,
    /// The last entry taken.
    last: Option<IndexEntry>,
    broken_chains: u64,
}

impl KeyFile {
    /// Opens a file and finds out its shape: `usual`, or else what its contents allow.
    pub(crate) fn open(disk: &Disk, path: &Path, shown: String, usual: Shape) -> Result<Option<Self>, StorageError> {
        let file = disk.open_read_only(path)?;
        let size = file.size()?;
        if size < HEADER_SIZE as u64 {
            return Ok(None);
        }
        let header = read_header(&file)?;
        let Some(shape) = shape_of(&file, size, &header, usual)? else { return Ok(None) };
        let slots = if shape.slot_count <= SLOTS_MAX { vec![0; shape.slot_count as usize] } else { Vec::new() };
        let number = 1;
        let ahead = VecDeque::new();
        Ok(Some(Self { shown, header, file, shape, number, ahead, slots, last: None, broken_chains: 0 }))
    }

    /// Byte of an entry in the file.
    pub(crate) const fn byte_of(&self, number: u32) -> u64 {
        self.shape.entry_at(number)
    }

    /// The entry `ahead` entries further on, 0 being the next one.
    pub(crate) fn peek(&mut self, ahead: usize) -> Option<(u32, IndexEntry)> {
        if ahead >= self.ahead.len() {
            self.read_on();
        }
        self.ahead.get(ahead).copied()
    }

    /// Takes the next entry as one of this file.
    pub(crate) fn take(&mut self) {
        let Some((number, entry)) = self.ahead.pop_front() else { return };
        let slot_count = self.slots.len().max(1);
        if let Some(slot) = self.slots.get_mut(entry.hash as usize % slot_count) {
            self.broken_chains += u64::from(*slot != entry.previous);
            *slot = number;
        }
        self.last = Some(entry);
    }

    /// Leaves out the entries not yet taken: nothing says that they were ever whole.
    pub(crate) fn leave_rest(&mut self) {
        self.ahead.clear();
        self.number = u32::MAX;
    }

    /// Whether an entry can be the next one: it points no further back than the last, and leads to the one before it in
    /// its slot.
    pub(crate) fn is_continued_by(&self, entry: IndexEntry) -> bool {
        let is_in_order = self.last.is_none_or(|last| last.log_offset <= entry.log_offset);
        let slot = self.slots.get(entry.hash as usize % self.slots.len().max(1));
        !entry.is_unwritten() && is_in_order && slot.is_none_or(|slot| *slot == entry.previous)
    }

    fn read_on(&mut self) {
        let end = self.header.next_entry.min(self.shape.entry_count);
        let count = ENTRIES_AT_ONCE.min(end.saturating_sub(self.number));
        if count == 0 {
            return;
        }
        let mut bytes = vec![0; count as usize * ENTRY_SIZE];
        if self.file.read_at(&mut bytes, self.shape.entry_at(self.number)).is_err() {
            self.header.next_entry = self.number;
            return;
        }
        for entry in bytes.chunks_exact(ENTRY_SIZE).filter_map(IndexEntry::decode) {
            self.ahead.push_back((self.number, entry));
            self.number += 1;
        }
    }

    /// All entries were taken: judges the slots and the header. The newest file after an unclean stop has neither right.
    pub(crate) fn finish(&self, is_unsure: bool, findings: &mut Findings) {
        let shown = || self.shown.clone();
        if self.header.next_entry > self.shape.entry_count {
            let what = format!("its header counts {} entries; {} fit", self.header.next_entry, self.shape.entry_count);
            return findings.add(Kind::KeyHeader, shown(), Some(36), what);
        }
        if self.broken_chains > 0 {
            let what = format!("{} entries do not lead to the one before them in their slot", self.broken_chains);
            findings.add(Kind::KeySlots, shown(), Some(self.shape.entry_at(1)), what);
        }
        if is_unsure {
            return;
        }
        let last = self.last.map(|last| last.log_offset);
        if last.is_some_and(|last| last != self.header.last_offset) {
            let what = format!(
                "its header says that it ends with log offset {}, its last entry {}",
                self.header.last_offset,
                last.unwrap_or_default()
            );
            findings.add(Kind::KeyHeader, shown(), Some(24), what);
        }
        self.judge_slots(findings);
    }

    fn judge_slots(&self, findings: &mut Findings) {
        const SLOTS_AT_ONCE: usize = 64 * 1024;
        let (mut wrong, mut first) = (0_u64, 0_u64);
        for (piece, expected) in self.slots.chunks(SLOTS_AT_ONCE).enumerate() {
            let from = (HEADER_SIZE + piece * SLOTS_AT_ONCE * SLOT_SIZE) as u64;
            let mut bytes = vec![0; expected.len() * SLOT_SIZE];
            if let Err(error) = self.file.read_at(&mut bytes, from) {
                return findings.add(Kind::Unreadable, self.shown.clone(), Some(from), error.to_string());
            }
            let found = bytes.as_chunks::<SLOT_SIZE>().0.iter().map(|slot| u32::from_be_bytes(*slot));
            for (at, (found, expected)) in found.zip(expected).enumerate() {
                if found != *expected {
                    wrong += 1;
                    first = if wrong == 1 { from + (at * SLOT_SIZE) as u64 } else { first };
                }
            }
        }
        let used = self.slots.iter().filter(|slot| **slot != 0).count();
        if wrong > 0 {
            let what = format!("{wrong} slots do not hold the number of their newest entry");
            findings.add(Kind::KeySlots, self.shown.clone(), Some(first), what);
        } else if !self.slots.is_empty() && used != self.header.used_slots as usize {
            let what = format!("its header counts {} slots in use; there are {used}", self.header.used_slots);
            findings.add(Kind::KeyHeader, self.shown.clone(), Some(32), what);
        }
    }
}

/// How many slots and entries a file of this size has. The file does not say: the first entry must be where the header says.
fn shape_of(file: &DiskFile, size: u64, header: &Header, usual: Shape) -> Result<Option<Shape>, StorageError> {
    if usual.file_size() == size {
        return Ok(Some(usual));
    }
    let of_slots = |slots: u64| {
        let rest = (size - HEADER_SIZE as u64).checked_sub(slots * SLOT_SIZE as u64)?;
        let (slot_count, entry_count) = (u32::try_from(slots).ok()?, u32::try_from(rest / ENTRY_SIZE as u64).ok()?);
        let shape = Shape { slot_count, entry_count };
        (slots > 0 && entry_count > 1 && shape.file_size() == size).then_some(shape)
    };
    let fits = |shape: Shape| -> Result<bool, StorageError> {
        let mut bytes = [0; ENTRY_SIZE];
        file.read_at(&mut bytes, shape.entry_at(1))?;
        let first = IndexEntry::decode(&bytes);
        let last = (header.next_entry - 1).min(shape.entry_count - 1).max(1);
        file.read_at(&mut bytes, shape.entry_at(last))?;
        let is_last = IndexEntry::decode(&bytes).is_some_and(|entry| entry.log_offset == header.last_offset);
        Ok(is_last && first.is_some_and(|first| first.log_offset == header.first_offset && first.previous == 0))
    };
    // RocketMQ's own ratio is four entries to a slot.
    let slots_max = (size - HEADER_SIZE as u64) / SLOT_SIZE as u64;
    let first_guess = of_slots((size - HEADER_SIZE as u64) / 84);
    if let Some(shape) = first_guess
        && (header.next_entry <= 1 || fits(shape)?)
    {
        return Ok(Some(shape));
    }
    for slots in 1..=slots_max.min(u64::from(SLOTS_MAX)) {
        if let Some(shape) = of_slots(slots)
            && fits(shape)?
        {
            return Ok(Some(shape));
        }
    }
    Ok(None)
}
