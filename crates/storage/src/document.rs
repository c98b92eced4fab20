//! Small JSON documents in `config/`, replaced atomically. The previous version stays as `.bak`.

use std::path::Path;

use format::loose_json::JsonError;
use format::state_documents;
use serde_json::Value;

use crate::disk::Disk;
use crate::error::StorageError;

/// Reads `config/<name>`, or its `.bak` if that is missing, damaged or unreadable. `None` if neither exists.
pub fn read(disk: &Disk, root: &Path, name: &str) -> Result<Option<Value>, StorageError> {
    read_as(disk, root, name, state_documents::parse)
}

/// The same, made of by `parse`.
///
/// If neither can be read this is an error: starting without the document would lose its contents.
pub fn read_as<T>(
    disk: &Disk,
    root: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<T, JsonError>,
) -> Result<Option<T>, StorageError> {
    let path = root.join("config").join(name);
    let backup = root.join("config").join(format!("{name}.bak"));
    let problem = match read_one(disk, &path, &parse)? {
        Some(Ok(value)) => return Ok(Some(value)),
        Some(Err(problem)) => problem,
        None => "it is missing".to_owned(),
    };
    match read_one(disk, &backup, &parse)? {
        Some(Ok(value)) => return Ok(Some(value)),
        None if !disk.exists(&path)? => return Ok(None),
        _ => {}
    }
    Err(StorageError::Damaged {
        path,
        problem: format!(
            "{problem}, and {} cannot replace it; restore the file from a copy, or remove both to start without what they hold",
            backup.display()
        ),
    })
}

/// The contents of a file, or why they are unusable; `None` if there is no file.
fn read_one<T>(
    disk: &Disk,
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, JsonError>,
) -> Result<Option<Result<T, String>>, StorageError> {
    match disk.read_file(path) {
        Ok(bytes) => Ok(bytes.map(|bytes| parse(&bytes).map_err(|error| error.to_string()))),
        Err(error) if error.is_unreadable() => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Replaces `config/<name>`.
pub fn write(disk: &Disk, root: &Path, name: &str, text: &str) -> Result<(), StorageError> {
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
