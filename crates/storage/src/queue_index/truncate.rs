//! Ends a queue's files where recovery found its end: nothing that lies beyond can ever be taken for an entry.

use format::queue_entry::ENTRY_SIZE;

use super::QueueIndex;
use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::store::ReadMode;

/// The least a file system keeps of a file.
const BLOCK_SIZE: u64 = 4096;

impl QueueIndex {
    /// Clears entries after the queue's end, whoever left them there.
    pub(crate) fn truncate(&self) -> Result<(), StorageError> {
        let file_size = self.entries_per_file * ENTRY_SIZE as u64;
        let end_at = self.end().0 * ENTRY_SIZE as u64;
        for name in self.files.disk().list(&self.directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let path = self.directory.join(&name);
            let file_number = start / file_size;
            if start >= end_at {
                self.remove_file(&path, file_number)?;
            } else if start + file_size > end_at {
                let file = self.files.existing(&path, ReadMode::MayWait)?;
                if !holds_nothing(&file, end_at - start)? {
                    file.clear(end_at - start, file_size, false)?;
                    self.state.lock().unsynced.insert(file_number);
                }
            }
        }
        Ok(())
    }
}

/// Whether a file reads as zeroes from `from` on. A power cut may leave some of what was written, and not the first of it; but
/// where nothing was ever written, the file system keeps nothing.
fn holds_nothing(file: &DiskFile, from: u64) -> Result<bool, StorageError> {
    let size = file.size()?;
    let block_end = from.next_multiple_of(BLOCK_SIZE).min(size);
    let mut rest = [0; BLOCK_SIZE as usize];
    let rest = rest.get_mut(..(block_end - from) as usize).unwrap_or_default();
    match file.read_at(rest, from) {
        // What is cleared can be read back, and what lies there is of no use.
        Err(error) if error.is_unreadable() => return Ok(false),
        outcome => outcome?,
    }
    Ok(rest.iter().all(|&byte| byte == 0) && (block_end == size || file.next_data(block_end).is_none()))
}
