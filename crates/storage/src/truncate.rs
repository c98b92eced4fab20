//! Truncates the log to the end that recovery found, so that no later start takes old bytes for records.

use std::path::Path;
use std::sync::Arc;

use base::LogOffset;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::recover::Recovery;
use crate::segment::Segment;
use crate::window::{WINDOW_SIZE, Window};

/// Clears the last segment after `end` and removes later ones; those that are not empty are set aside. Returns the segments kept.
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
                // Never acknowledged as durable, but someone may want to examine them.
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
            // After an unclean stop there may be bytes further on than `used_bytes_after` looks.
            if used > 0 || !recovery.was_clean {
                segment.file().clear(position, segment.end() - segment.base(), true)?;
                segment.file().sync_data()?;
            }
        }
        kept.push(segment);
    }
    Ok(kept)
}

/// Bytes from `end` to the last one that is not zero. Stops at a whole window of zeroes, since writes are sequential.
pub(crate) fn used_bytes_after(segment: &Segment, end: u64) -> Result<u64, StorageError> {
    let mut window = Window::new(segment);
    let mut offset = end;
    let mut used = 0;
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
