//! Small JSON documents under `config/`, replaced atomically, each with a `.bak` of the version before.

use std::path::Path;

use serde_json::Value;

use crate::disk::Disk;
use crate::error::StorageError;

/// Reads `config/<name>`; falls back to its `.bak` if it is damaged. `None` if there is neither.
///
/// Damage that the backup cannot mend is an error: starting without the document would lose what it held.
pub(crate) fn read(disk: &Disk, root: &Path, name: &str) -> Result<Option<Value>, StorageError> {
    let path = root.join("config").join(name);
    let backup = root.join("config").join(format!("{name}.bak"));
    let problem = match disk.read_file(&path)? {
        Some(bytes) => match base::loose_json::parse(&bytes) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error.to_string(),
        },
        None => "it is missing".to_owned(),
    };
    if let Some(bytes) = disk.read_file(&backup)? {
        if let Ok(value) = base::loose_json::parse(&bytes) {
            return Ok(Some(value));
        }
    } else if !disk.exists(&path) {
        return Ok(None);
    }
    Err(StorageError::Damaged {
        path,
        problem: format!(
            "{problem}, and {} cannot replace it; restore the file from a copy, or remove both to start without what they hold",
            backup.display()
        ),
    })
}

/// Replaces `config/<name>`.
pub(crate) fn write(disk: &Disk, root: &Path, name: &str, text: &str) -> Result<(), StorageError> {
    disk.replace_file(&root.join("config").join(name), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use serde_json::json;

    #[test]
    fn a_damaged_document_is_replaced_by_its_backup_or_stops_the_start() {
        let disk = Disk::new(MemoryDisk::new());
        let root = Path::new("/data");
        let path = root.join("config/topics.json");
        assert_eq!(read(&disk, root, "topics.json").expect("reads"), None);
        write(&disk, root, "topics.json", r#"{"a":1}"#).expect("writes");
        write(&disk, root, "topics.json", r#"{"a":2}"#).expect("writes");
        disk.replace_file(&path, b"{\"a\":").expect("writes");
        assert_eq!(read(&disk, root, "topics.json").expect("reads"), Some(json!({"a": 2})));
        write(&disk, root, "topics.json", "{").expect("writes");
        let error = read(&disk, root, "topics.json").expect_err("both damaged").to_string();
        assert!(error.contains("topics.json is damaged") && error.contains("restore"), "{error}");
    }
}
