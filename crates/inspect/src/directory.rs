//! What lies in the data directory beside log, queues, keys and documents: checkpoint, `abort`, things set aside.

use std::path::Path;

use storage::StorageError;
use storage::checkpoint::Checkpoint;
use storage::disk::Disk;

use crate::finding::{Findings, Kind};

/// Bytes of a checkpoint.
const CHECKPOINT_SIZE: u64 = 4096;

/// Parts of a Java broker's store that are not checked.
const NOT_LOOKED_AT: &[(&str, &str)] = &[
    ("batchconsumequeue", "queues of batches"),
    ("consumequeue_ext", "extensions of entries"),
    ("timerlog", "messages timed to the second"),
    ("dledger-commitlog", "the log of a DLedger group"),
];

/// Reads the checkpoint and tells what is wrong with it. One that the disk cannot read says nothing, as if it were missing.
pub(crate) fn checkpoint(disk: &Disk, root: &Path, has_log: bool, findings: &mut Findings) -> Checkpoint {
    read_checkpoint(disk, root, has_log, findings).unwrap_or_else(|error| {
        findings.add(Kind::Unreadable, "checkpoint", None, error.to_string());
        Checkpoint::default()
    })
}

fn read_checkpoint(
    disk: &Disk,
    root: &Path,
    has_log: bool,
    findings: &mut Findings,
) -> Result<Checkpoint, StorageError> {
    let path = root.join("checkpoint");
    if !disk.exists(&path)? {
        if has_log {
            findings.add(Kind::CheckpointMissing, "checkpoint", None, "it is missing");
        }
        return Ok(Checkpoint::default());
    }
    let size = disk.open_read_only(&path)?.size()?;
    let checkpoint = Checkpoint::read(disk, root)?;
    if size != CHECKPOINT_SIZE {
        findings.add(Kind::CheckpointDamaged, "checkpoint", None, format!("{size} bytes, not {CHECKPOINT_SIZE}"));
    } else if checkpoint.indexed.is_none() && Checkpoint::has_own_magic(disk, root)? {
        findings.add(Kind::CheckpointDamaged, "checkpoint", Some(2048), "its checksum is wrong");
    }
    Ok(checkpoint)
}

/// Looks at everything else.
pub(crate) fn rest(disk: &Disk, root: &Path, findings: &mut Findings) -> Result<(), StorageError> {
    for name in disk.list(&root.join("set-aside"))? {
        let file = disk.open_read_only(&root.join("set-aside").join(&name));
        let size =
            file.and_then(|file| file.size()).map_or_else(|_| "a folder".to_owned(), |size| format!("{size} bytes"));
        findings.add(Kind::SetAside, format!("set-aside/{name}"), None, size);
    }
    for name in disk.list(root)? {
        if name.ends_with(".cut") || name.ends_with(".unusable") || name.ends_with(".set-aside") {
            findings.add(Kind::SetAside, name, None, "set aside by a start");
        } else if let Some((_, what)) = NOT_LOOKED_AT.iter().find(|(known, _)| *known == name) {
            findings.add(Kind::NotLookedAt, name, None, *what);
        }
    }
    Ok(())
}
