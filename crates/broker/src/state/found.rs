//! The documents of a data directory, as a start finds them: our own exports, and what a foreign broker has written since.

use std::collections::BTreeMap;
use std::path::Path;

use base::LogOffset;
use format::state_documents::{self, DocumentHead, FILES, StateDocuments};
use serde_json::Value;
use storage::StorageError;
use storage::disk::Disk;

use super::{GROUPS_FILE, OFFSETS_FILE};

/// What there is of documents.
#[derive(Debug, Default)]
pub(super) struct FoundDocuments {
    /// What our own exports say, as far as that was wanted.
    pub(super) own: StateDocuments,
    /// Names of our own exports,
    pub(super) exported: Vec<&'static str>,
    /// and up to where in the log the oldest of them tells.
    pub(super) oldest_export: Option<LogOffset>,
    /// What foreign documents say,
    pub(super) foreign: StateDocuments,
    /// and checksums of their texts.
    pub(super) foreign_checksums: BTreeMap<&'static str, u32>,
    /// Version of the offset table as its document has it.
    pub(super) offsets_version: i64,
    /// What the groups' document says that nobody changes here.
    pub(super) forbidden: Option<Value>,
}

impl FoundDocuments {
    /// Reads them; our own exports only where `is_wanted` says so of their position in the log.
    pub(super) fn read(disk: &Disk, directory: &Path, is_wanted: impl Fn(u64) -> bool) -> Result<Self, StorageError> {
        let mut found = Self::default();
        for name in FILES {
            let Some((head, document)) = read_document(disk, directory, name, &is_wanted)? else { continue };
            if name == OFFSETS_FILE {
                found.offsets_version = head.data_version.counter;
            }
            if name == GROUPS_FILE {
                found.forbidden = Some(head.forbidden_table);
            }
            let documents = match head.position.map(LogOffset) {
                Some(position) => {
                    found.oldest_export = Some(found.oldest_export.map_or(position, |oldest| oldest.min(position)));
                    found.exported.push(name);
                    &mut found.own
                }
                None => {
                    let text = document.as_ref().map(Value::to_string).unwrap_or_default();
                    found.foreign_checksums.insert(name, crc32fast::hash(text.as_bytes()));
                    &mut found.foreign
                }
            };
            if let Some(document) = document {
                documents.take_in(name, document).map_err(|error| unusable(directory, name, &error))?;
            }
        }
        Ok(found)
    }
}

fn unusable(directory: &Path, name: &str, error: &serde_json::Error) -> StorageError {
    StorageError::Damaged {
        path: directory.join("config").join(name),
        problem: format!("{error}; mend it by hand or restore the {name}.bak beside it"),
    }
}

/// The head of a document and, if it is foreign or `is_wanted` says so of its position, all of it.
fn read_document(
    disk: &Disk,
    directory: &Path,
    name: &str,
    is_wanted: impl Fn(u64) -> bool,
) -> Result<Option<(DocumentHead, Option<Value>)>, StorageError> {
    storage::read_document_as(disk, directory, name, |text| {
        let head = DocumentHead::of_ours(text);
        if let Some(head) = head.filter(|head| head.position.is_some_and(|position| !is_wanted(position))) {
            return Ok((head, None));
        }
        let document = state_documents::parse(text)?;
        Ok((DocumentHead::of(&document), Some(document)))
    })
}
