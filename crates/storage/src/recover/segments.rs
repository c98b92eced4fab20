//! Opens the segments of the log, whichever a crash or people left.
//!
//! A segment that is missing or short while later ones exist is an error below durable, and truncates the log above: a file system
//! may reserve a large file in steps, with a power cut between two of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Recovery;
use base::LogOffset;

use crate::checkpoint::Checkpoint;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::segment::{Segment, file_name};
use crate::store::Options;
use crate::truncate::used_bytes_after;

/// Where the log of a data directory begins, as its files are named.
pub fn log_begins(options: &Options) -> Result<LogOffset, StorageError> {
    let directory = options.log_directory.clone().unwrap_or_else(|| options.directory.join("commitlog"));
    if !options.disk.exists(&directory)? {
        return Ok(LogOffset(0));
    }
    let first = listed(&options.disk, &directory)?.into_iter().map(|(base, _)| base).min();
    Ok(LogOffset(first.unwrap_or_default()))
}

/// Opens the segments and detects their size: what is on the disk wins over the setting. After a crash, a gap in the log above the
/// checkpoint ends it, and the segments after it are set aside. Any other gap is an error.
pub(crate) fn open_segments(
    options: &mut Options,
    directory: &Path,
    checkpoint: &Checkpoint,
    recovery: &mut Recovery,
) -> Result<Vec<Arc<Segment>>, StorageError> {
    let disk = &options.disk;
    let promised = checkpoint.log_durable.filter(|_| !recovery.was_clean);
    let is_promised = |offset: u64| promised.is_none_or(|promised| promised.0 > offset);
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    let mut segment_size = options.segment_size;
    for (base, size) in found(disk, directory)? {
        let path = directory.join(file_name(base));
        // A log may begin anywhere.
        let expected = segments.last().map_or(base, |last| last.end());
        if base == expected
            && size < segment_size
            && !is_promised(base)
            && was_being_made(disk, directory, base, recovery)?
        {
            let used = used_bytes_after(&Segment::open_read_only(disk, directory, base)?, base)?;
            if used > 0 && segments.is_empty() {
                // Created under another setting.
                segment_size = size;
            } else {
                put_away(disk, directory, &path, used, recovery)?;
                continue;
            }
        } else if segments.is_empty() {
            segment_size = size;
        } else if base > expected && !is_promised(expected) {
            // A power cut took the segment before this one, or its size.
            put_away(disk, directory, &path, size, recovery)?;
            continue;
        } else if size != segment_size || base != expected {
            return Err(not_next(path, Some(segment_size), expected));
        }
        segments.push(Arc::new(Segment::open(disk, directory, base, size)?));
    }
    if segments.first().is_some_and(|first| first.base() % segment_size != 0) {
        return Err(StorageError::Damaged {
            path: directory.to_owned(),
            problem: format!("the first segment's name is no multiple of the segment size {segment_size}"),
        });
    }
    options.segment_size = segment_size;
    Ok(segments)
}

/// Opens the segments for reading alone. What `open_segments` would put away ends the log; any other gap is an error.
pub(super) fn open_segments_read_only(
    disk: &Disk,
    directory: &Path,
    checkpoint: &Checkpoint,
    was_clean: bool,
) -> Result<Vec<Arc<Segment>>, StorageError> {
    let promised = checkpoint.log_durable.filter(|_| !was_clean);
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    for (base, _) in listed(disk, directory)?.into_iter().filter(|(_, size)| *size > 0) {
        let expected = segments.last().map_or(base, |last| last.end());
        if base == expected {
            segments.push(Arc::new(Segment::open_read_only(disk, directory, base)?));
        } else if promised.is_none_or(|promised| promised.0 > expected) {
            return Err(not_next(directory.join(file_name(base)), None, expected));
        } else {
            break;
        }
    }
    Ok(segments)
}

/// Base offsets and sizes of the segments there are, in order.
fn listed(disk: &Disk, directory: &Path) -> Result<Vec<(u64, u64)>, StorageError> {
    let names = disk.list(directory)?.into_iter();
    let bases = names.filter_map(|name| {
        let base = name.parse::<u64>().ok().filter(|base| name.len() == 20 && *base <= i64::MAX as u64);
        base.map(|base| (base, name))
    });
    bases.map(|(base, name)| Ok((base, disk.size(&directory.join(name))?))).collect()
}

/// The same without files that have no byte, which are removed.
fn found(disk: &Disk, directory: &Path) -> Result<Vec<(u64, u64)>, StorageError> {
    let (empty, found): (Vec<_>, Vec<_>) = listed(disk, directory)?.into_iter().partition(|(_, size)| *size == 0);
    empty.into_iter().try_for_each(|(base, _)| disk.remove_file(&directory.join(file_name(base))))?;
    Ok(found)
}

/// A segment that is not the one after those before it.
fn not_next(path: PathBuf, segment_size: Option<u64>, expected: u64) -> StorageError {
    let size = segment_size.map(|size| format!(" of {size} bytes")).unwrap_or_default();
    StorageError::Damaged {
        path,
        problem: format!(
            "expected a segment{size} that begins at {expected}; a segment before it is missing or was cut short. Restore it from a copy, or move this and all later segments away to go on without them"
        ),
    }
}

/// Whether a short segment may be one whose space was still being reserved. Nothing is written before that is done, but a power cut
/// may leave bytes with a file size from before them.
fn was_being_made(disk: &Disk, directory: &Path, base: u64, recovery: &Recovery) -> Result<bool, StorageError> {
    Ok(!recovery.runs_on || used_bytes_after(&Segment::open_read_only(disk, directory, base)?, base)? == 0)
}

/// Takes a segment of which nothing was promised out of the log: removed if no bytes of it were `used`, else set aside.
fn put_away(
    disk: &Disk,
    directory: &Path,
    path: &Path,
    used: u64,
    recovery: &mut Recovery,
) -> Result<(), StorageError> {
    if used == 0 {
        disk.remove_file(path)?;
        return disk.sync_directory(directory);
    }
    recovery.truncated_bytes += used;
    recovery.set_aside.push(disk.set_aside(directory.parent().unwrap_or(directory), path)?);
    Ok(())
}
