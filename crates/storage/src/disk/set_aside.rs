//! The folder `set-aside` of a data directory, which has files that could not be used, for somebody to look at. Nothing reads them.

use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, parent_of};
use crate::error::StorageError;

/// Files of one name that are kept at most.
const NUMBERS_MAX: u32 = 1000;
/// Names of which the disk cannot tell that are passed over at most.
const UNTOLD_MAX: u32 = 3;

impl Disk {
    /// Keeps an unusable file for examination: moves it to the folder `set-aside` of `root`, named by its path with dashes, shortened where a
    /// file system would not take that. If that is on another disk, the file stays in its directory with the extension `set-aside`; a Java
    /// broker must not find it there.
    pub fn set_aside(&self, root: &Path, path: &Path) -> Result<PathBuf, StorageError> {
        let folder = root.join("set-aside");
        self.create_directory(&folder)?;
        let way = shortened(path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('/', "-"));
        let aside = self.free_name(path, |suffix| folder.join(format!("{way}{suffix}")))?;
        match self.rename(path, &aside) {
            Ok(()) => {
                self.sync_directory(&folder)?;
                self.sync_directory(parent_of(path))?;
                Ok(aside)
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let beside = self.free_name(path, |suffix| {
                    path.with_extension(format!("{suffix}.set-aside").trim_start_matches('.'))
                })?;
                self.rename(path, &beside).map_err(StorageError::io("move aside", path))?;
                self.sync_directory(parent_of(path))?;
                Ok(beside)
            }
            Err(error) => Err(StorageError::io("move aside", path)(error)),
        }
    }

    /// The first name that no file has: without a suffix, else with `.2` and so on. One of which the disk cannot tell is taken, as long as there
    /// are few.
    fn free_name(&self, path: &Path, name: impl Fn(&str) -> PathBuf) -> Result<PathBuf, StorageError> {
        let mut untold = 0;
        for number in 1..=NUMBERS_MAX {
            let name = if number == 1 { name("") } else { name(&format!(".{number}")) };
            match self.exists(&name) {
                Ok(false) => return Ok(name),
                Err(error) if untold == UNTOLD_MAX => return Err(error),
                Err(_) => untold += 1,
                Ok(true) => {}
            }
        }
        Err(StorageError::Damaged {
            path: path.to_owned(),
            problem: format!(
                "it has to be set aside, and {NUMBERS_MAX} files of its name have been. Move what is set aside elsewhere"
            ),
        })
    }
}

/// A name that leaves room for a number behind it, cut in its middle where it is too long for a file system.
fn shortened(name: String) -> String {
    const KEPT: usize = 110;
    let (front, back) = (name.floor_char_boundary(KEPT), name.ceil_char_boundary(name.len().saturating_sub(KEPT)));
    if name.len() <= 2 * KEPT + 20 { name } else { format!("{}...{}", &name[..front], &name[back..]) }
}
