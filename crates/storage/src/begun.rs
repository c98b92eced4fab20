//! The file `abort`, which exists from the opening of a store to its orderly stop.
//!
//! Its name is RocketMQ's, whose brokers check whether it exists, and write their process id into it. Below that Sluice writes the
//! boot ID: a start that finds the same one knows that the process was killed and that the page cache was not lost.

use std::path::Path;

use crate::disk::Disk;
use crate::error::StorageError;

/// Its name in the data directory.
pub const NAME: &str = "abort";

/// The file of a process that did not stop in an orderly way.
#[derive(Debug)]
pub struct Begun {
    /// The boot ID, if there is one in the file.
    boot: Option<String>,
}

impl Begun {
    /// Reads the file in `root`; `None` after an orderly stop.
    pub fn read(disk: &Disk, root: &Path) -> Result<Option<Self>, StorageError> {
        let found = match disk.read_file(&root.join(NAME)) {
            // That it is there tells enough: without its boot ID the start trusts less.
            Err(error) if error.is_unreadable() => Some(Vec::new()),
            read => read?,
        };
        Ok(found.map(|bytes| {
            let boot = bytes.split(|&byte| byte == b'\n').nth(1).filter(|line| !line.is_empty());
            Self { boot: boot.map(|line| String::from_utf8_lossy(line).into_owned()) }
        }))
    }

    /// Whether the machine has not restarted since: then everything written is still there, synced or not.
    pub fn runs_on(&self, disk: &Disk) -> bool {
        self.boot.is_some() && self.boot == disk.boot()
    }

    /// Marks the directory as in use, until `remove`.
    pub(crate) fn write(disk: &Disk, root: &Path) -> Result<(), StorageError> {
        let text = format!("{}\n{}\n", std::process::id(), disk.boot().unwrap_or_default());
        match disk.replace_file(&root.join(NAME), text.as_bytes()) {
            // On a full disk an existing file will do: an old boot ID only makes the next start trust less.
            Err(error) if error.is_disk_full() && disk.exists(&root.join(NAME))? => return Ok(()),
            written => written?,
        }
        disk.remove_file(&root.join(format!("{NAME}.bak")))
    }

    /// Marks an orderly stop.
    pub(crate) fn remove(disk: &Disk, root: &Path) -> Result<(), StorageError> {
        disk.remove_file(&root.join(NAME))
    }
}
