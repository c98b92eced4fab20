//! Messages that were leased and are to be read.

use base::QueueOffset;
use format::queue_entry::Entry;
use storage::{ReadMode, Records, StorageError, Store};

use crate::queue::Queue;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) offset: QueueOffset,
    pub(super) entry: Entry,
    pub(super) deliveries: u32,
}

/// The records of all.
pub(super) fn read(store: &Store, queue: &Queue, leased: &[Leased], mode: ReadMode) -> Result<Records, StorageError> {
    let entries: Vec<_> = leased.iter().map(|leased| (leased.offset, leased.entry)).collect();
    store.read(&queue.index, &entries, mode)
}

/// The record of one; `None` where it is damaged or gone. Where its entry is wrong, by one that is made again.
pub(super) fn read_one(store: &Store, queue: &Queue, leased: Leased) -> Result<Option<Records>, StorageError> {
    let records = read(store, queue, &[leased], ReadMode::MayWait)?;
    let Leased { offset, entry, .. } = leased;
    if records.count() > 0 {
        return Ok(Some(records));
    }
    if queue.topic().message_queue().is_none() {
        return Ok(None);
    }
    let Some(entry) = store.corrected_entry(&queue.index, (offset, entry))? else { return Ok(None) };
    let records = read(store, queue, &[Leased { entry, ..leased }], ReadMode::MayWait)?;
    Ok(Some(records).filter(|records| records.count() > 0))
}
