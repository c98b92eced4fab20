//! Truncates a queue's files to the end that recovery found, so that no later start takes old bytes for entries.

use super::QueueIndex;
use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::store::ReadMode;

/// Block size of usual file systems: they allocate no less.
const BLOCK_SIZE: u64 = 4096;

impl QueueIndex {
    /// Clears the files from the queue's end on, and removes those after it.
    pub(crate) fn truncate(&self) -> Result<(), StorageError> {
        let (directory, file_size) = (self.directory(), self.entries_per_file * self.form().size());
        let end_at = self.end().0 * self.form().size();
        for name in self.files.disk().list(&directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let path = directory.join(&name);
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

/// Whether a file is all zeroes from `from` on. After a power cut later blocks may hold data though the first does not, so the file
/// system is asked for allocated blocks.
fn holds_nothing(file: &DiskFile, from: u64) -> Result<bool, StorageError> {
    let size = file.size()?;
    let block_end = from.next_multiple_of(BLOCK_SIZE).min(size);
    let mut rest = [0; BLOCK_SIZE as usize];
    let rest = rest.get_mut(..(block_end - from) as usize).unwrap_or_default();
    match file.read_at(rest, from) {
        // Clearing makes the bytes readable again; their contents are of no use.
        Err(error) if error.is_unreadable() => return Ok(false),
        outcome => outcome?,
    }
    Ok(rest.iter().all(|&byte| byte == 0) && (block_end == size || file.next_data(block_end).is_none()))
}
