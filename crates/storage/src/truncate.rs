//! Ends the log where recovery found its end: nothing that lies beyond can ever be taken for its own.

use std::path::Path;
use std::sync::Arc;

use base::LogOffset;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::recover::Recovery;
use crate::segment::Segment;
use crate::window::{WINDOW_SIZE, Window};

/// Clears everything after the end of the log, so that no old bytes are ever taken for records, and removes
/// segments after the one being written: those that hold anything are set aside below `root`. Returns the segments to
/// go on with.
pub(crate) fn truncate_log(
    disk: &Disk,
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
                recovery.truncated_bytes += used;
                recovery.set_aside.push(disk.set_aside(root, segment.file().path())?);
            } else {
                disk.remove_file(segment.file().path())?;
                disk.sync_directory(segment.file().path().parent().unwrap_or(root))?;
            }
            continue;
        }
        if segment.end() > end.0 {
            let position = segment.position(end);
            let used = used_bytes_after(&segment, end.0)?;
            recovery.truncated_bytes += used;
            // After an unclean stop bytes may lie anywhere, even where a look at what comes next shows nothing.
            if used > 0 || !recovery.was_clean {
                segment.file().clear(position, segment.end() - segment.base(), true)?;
                segment.file().sync_data()?;
            }
        }
        kept.push(segment);
    }
    Ok(kept)
}

/// Bytes from `end` to the last one that is not zero, as far as can be told cheaply: a large stretch of zeroes ends the
/// search.
pub(crate) fn used_bytes_after(segment: &Segment, end: u64) -> Result<u64, StorageError> {
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
