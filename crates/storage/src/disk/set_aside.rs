//! The folder `set-aside` of a data directory, which has files that could not be used, for somebody to look at. Nothing reads them.

use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, parent_of};
use crate::error::StorageError;

impl Disk {
    /// Keeps an unusable file for examination: moves it to the folder `set-aside` of `root`, named by its path with dashes. If that is
    /// on another disk, the file stays in its directory with the extension `set-aside`; a Java broker must not find it there.
    pub fn set_aside(&self, root: &Path, path: &Path) -> Result<PathBuf, StorageError> {
        let folder = root.join("set-aside");
        self.create_directory(&folder)?;
        let way = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('/', "-");
        let way = shortened(way);
        let (mut aside, mut number) = (folder.join(&way), 1);
        while self.exists(&aside)? {
            number += 1;
            aside = folder.join(format!("{way}.{number}"));
        }
        match self.rename(path, &aside) {
            Ok(()) => {
                self.sync_directory(&folder)?;
                self.sync_directory(parent_of(path))?;
                Ok(aside)
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let beside = path.with_extension("set-aside");
                self.rename(path, &beside).map_err(StorageError::io("move aside", path))?;
                self.sync_directory(parent_of(path))?;
                Ok(beside)
            }
            Err(error) => Err(StorageError::io("move aside", path)(error)),
        }
    }
}

/// A name that leaves room for a number behind it, cut in its middle where it is too long for a file system.
fn shortened(name: String) -> String {
    const KEPT: usize = 110;
    let (front, back) = (name.floor_char_boundary(KEPT), name.ceil_char_boundary(name.len().saturating_sub(KEPT)));
    if name.len() <= 2 * KEPT + 20 { name } else { format!("{}...{}", &name[..front], &name[back..]) }
}
