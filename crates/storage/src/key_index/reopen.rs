//! Opens key-index files after a stop: keys below the checkpoint are kept, later ones are dropped and rebuilt from the log.
//!
//! After a power cut a header may count entries that are not on the disk, since only a sync orders the two. So a file is trusted only
//! as far as its entries are below the checkpoint.

use std::path::Path;
use std::sync::Arc;

use base::LogOffset;
use format::key_index::{ENTRY_SIZE, Header, IndexEntry, Shape};

use super::{Growing, Sealed, State, read_header};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// Disks write a sector whole or not at all.
const SECTOR_SIZE: u64 = 512;

/// Which keys are certainly durable.
#[derive(Clone, Copy)]
pub(crate) struct Sure<'a> {
    /// Those of records below this.
    pub(crate) below: LogOffset,
    /// Whether the log has a record at that offset with a key of that hash.
    pub(crate) has_key: &'a dyn Fn(LogOffset, u32) -> Result<bool, StorageError>,
}

/// Whether an entry crosses a sector boundary, so that a power cut may leave half of it.
pub(super) const fn is_across_sectors(shape: Shape, number: u32) -> bool {
    let begin = shape.entry_at(number);
    begin / SECTOR_SIZE != (begin + ENTRY_SIZE as u64 - 1) / SECTOR_SIZE
}

impl State {
    /// Loads the keys in `files` that are certainly durable.
    pub(super) fn open(
        files: &[Arc<DiskFile>],
        disk: &Disk,
        directory: &Path,
        shape: Shape,
        sure: Sure<'_>,
    ) -> Result<Self, StorageError> {
        let mut state = Self::default();
        for file in files {
            file.doubt_names(disk, 1);
            let header = if file.size()? == 0 { Header::default() } else { read_header(file)? };
            state.sealed.push(Sealed { file: file.clone(), header });
        }
        // By contents, not by name: RocketMQ names files by local time, Sluice by UTC. Files without a key come last.
        state
            .sealed
            .sort_by_key(|Sealed { header, .. }| (header.next_entry <= 1, header.first_offset, header.first_time));
        state.truncate(disk, directory, shape, sure)?;
        Ok(state)
    }

    /// Drops keys that are not certainly durable, and opens the last file for new ones.
    fn truncate(&mut self, disk: &Disk, directory: &Path, shape: Shape, sure: Sure<'_>) -> Result<(), StorageError> {
        while let Some(newest) = self.sealed.pop() {
            if newest.header.next_entry > 1 && newest.header.first_offset < sure.below.0 {
                let is_full = newest.header.next_entry >= shape.entry_count;
                if is_full && newest.header.last_offset < sure.below.0 {
                    self.sealed.push(newest);
                } else {
                    self.growing = Some(Growing::reopen(newest.file, newest.header, shape, sure)?);
                }
                break;
            }
            // No key in it is durable. Synced, since a file that came back later would point at other records.
            disk.remove_file(newest.file.path())?;
            disk.sync_directory(directory)?;
        }
        Ok(())
    }
}

impl Growing {
    /// Rebuilds the slots from the entries, since those on the disk may be older or newer than the header. Entries are dropped from
    /// the first one on that is not certainly durable.
    pub(super) fn reopen(
        file: Arc<DiskFile>,
        mut header: Header,
        shape: Shape,
        sure: Sure<'_>,
    ) -> Result<Self, StorageError> {
        const ENTRIES_AT_ONCE: u32 = 50_000;
        let mut slots = vec![0; shape.slot_count as usize];
        let mut number = 1;
        let mut buffer = Vec::new();
        let mut last: Option<(IndexEntry, u32, u64)> = None;
        let end = header.next_entry.min(shape.entry_count);
        let is_doubtful = header.last_offset >= sure.below.0;
        (header.used_slots, header.last_offset) = (0, header.first_offset);
        'entries: while number < end {
            let count = ENTRIES_AT_ONCE.min(end - number);
            buffer.resize(count as usize * ENTRY_SIZE, 0);
            file.read_at(&mut buffer, shape.entry_at(number))?;
            for entry in buffer.chunks_exact(ENTRY_SIZE).filter_map(IndexEntry::decode) {
                let is_zero = entry.hash == 0 && entry.log_offset == 0 && entry.previous == 0;
                if is_zero || entry.log_offset >= sure.below.0 || entry.log_offset < header.last_offset {
                    break 'entries;
                }
                if let Some(slot) = slots.get_mut((entry.hash % shape.slot_count) as usize) {
                    header.used_slots += u32::from(*slot == 0);
                    last = Some((entry, *slot, header.last_offset));
                    *slot = number;
                }
                header.last_offset = entry.log_offset;
                number += 1;
            }
        }
        // The last entry may be half old and half new if it crosses a sector boundary: the log decides.
        if let Some((entry, before, last_offset)) = last.filter(|_| is_doubtful && is_across_sectors(shape, number - 1))
            && !(sure.has_key)(LogOffset(entry.log_offset), entry.hash)?
            && let Some(slot) = slots.get_mut((entry.hash % shape.slot_count) as usize)
        {
            *slot = before;
            header.used_slots -= u32::from(before == 0);
            header.last_offset = last_offset;
            number -= 1;
        }
        header.next_entry = number;
        // So that old bytes are not taken for entries once the header counts that far again.
        file.clear(shape.entry_at(number), shape.file_size(), false)?;
        Ok(Self { file, header, slots, pending: Vec::new(), pending_from: number, slots_changed: true })
    }
}
