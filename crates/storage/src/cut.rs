//! Ends the log and its queues where recovery found their ends: nothing that lies beyond can ever be taken for theirs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueOffset};

use crate::disk::{self, DiskFile};
use crate::error::StorageError;
use crate::queue_index::ENTRY_SIZE;
use crate::recover::Recovery;
use crate::segment::Segment;
use crate::window::{WINDOW_SIZE, Window};

/// Clears everything after the end of the log, so that no old bytes are ever taken for records, and removes
/// segments after the one being written: those that hold anything are set aside below `root`. Returns the segments to
/// go on with.
pub(crate) fn cut_log(
    root: &Path,
    segments: Vec<Arc<Segment>>,
    end: LogOffset,
    recovery: &mut Recovery,
) -> Result<Vec<Arc<Segment>>, StorageError> {
    let mut kept = Vec::new();
    for segment in segments {
        if segment.base() > end.0 {
            let used = used_bytes_after(&segment, segment.base())?;
            if used > 0 {
                // Its bytes were never promised, but people may want to look at them.
                recovery.cut_bytes += used;
                recovery.set_aside.push(disk::set_aside(root, segment.file().path())?);
            } else {
                disk::remove_file(segment.file().path())?;
            }
            continue;
        }
        if segment.end() > end.0 {
            let position = segment.position(end);
            let used = used_bytes_after(&segment, end.0)?;
            if used > 0 {
                recovery.cut_bytes += used;
                segment.file().clear(position, segment.end() - segment.base())?;
                segment.file().sync_data()?;
            }
        }
        kept.push(segment);
    }
    Ok(kept)
}

/// Bytes from `end` to the last one that is not zero.
fn used_bytes_after(segment: &Segment, end: u64) -> Result<u64, StorageError> {
    let mut window = Window::new(segment);
    let mut offset = end;
    let mut used = 0;
    // Writes come in order: a whole window of zeroes means that nothing follows, as far as can be told cheaply.
    while offset < segment.end() {
        let bytes = window.at(offset, WINDOW_SIZE)?;
        match bytes.iter().rposition(|&byte| byte != 0) {
            Some(last) => used = offset - end + last as u64 + 1,
            None => break,
        }
        offset += bytes.len() as u64;
    }
    Ok(used)
}

/// Clears entries after each queue's end, whoever left them there.
pub(crate) fn cut_queue(directory: &Path, entries_per_file: u64, end: QueueOffset) -> Result<(), StorageError> {
    let file_size = entries_per_file * ENTRY_SIZE as u64;
    for name in disk::list(directory)? {
        let Ok(start) = name.parse::<u64>() else { continue };
        let path: PathBuf = directory.join(&name);
        let end_at = end.0 * ENTRY_SIZE as u64;
        if start >= end_at && start > 0 {
            disk::remove_file(&path)?;
        } else if start + file_size > end_at {
            let file = DiskFile::open(&path)?;
            let mut next = [0; ENTRY_SIZE];
            file.read_at(&mut next, end_at - start)?;
            if next != [0; ENTRY_SIZE] {
                file.clear(end_at - start, file_size)?;
            }
        }
    }
    Ok(())
}
