//! Ends a queue's files where recovery found its end: nothing that lies beyond can ever be taken for an entry.

use std::sync::Arc;

use super::{ENTRY_SIZE, QueueIndex};
use crate::disk::DiskFile;
use crate::error::StorageError;

/// Bytes after a queue's end that are looked at for old entries.
const CUT_LOOK_SIZE: u64 = 64 * 1024;

impl QueueIndex {
    /// Clears entries after the queue's end, whoever left them there.
    pub(crate) fn cut(&self) -> Result<(), StorageError> {
        let file_size = self.entries_per_file * ENTRY_SIZE as u64;
        let end_at = self.end().0 * ENTRY_SIZE as u64;
        for name in self.disk.list(&self.directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let path = self.directory.join(&name);
            if start >= end_at && start > 0 {
                self.disk.remove_file(&path)?;
                self.disk.sync_directory(&self.directory)?;
            } else if start + file_size > end_at {
                let file = Arc::new(self.disk.open(&path)?);
                if self.holds_anything(&file, end_at - start, file_size)? {
                    file.clear(end_at - start, file_size, false)?;
                    self.note_written(&file);
                }
            }
        }
        Ok(())
    }

    /// Whether anything but zeroes follows in the next entries: a power cut may leave some of what was written, and not
    /// the first of it.
    fn holds_anything(&self, file: &DiskFile, from: u64, file_size: u64) -> Result<bool, StorageError> {
        let mut next = vec![0; (file_size - from).min(CUT_LOOK_SIZE) as usize];
        file.read_at(&mut next, from)?;
        Ok(next.iter().any(|&byte| byte != 0))
    }
}
