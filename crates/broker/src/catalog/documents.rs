//! The catalog's documents: read when a broker starts, written when something changed.

use std::sync::atomic::Ordering;

use format::document::{GroupTableDocument, TopicTableDocument};
use storage::{StorageError, Store};

use super::Catalog;

pub(super) const TOPICS_FILE: &str = "topics.json";
pub(super) const GROUPS_FILE: &str = "subscriptionGroup.json";

impl Catalog {
    /// The topic table as a document.
    pub fn topic_table(&self) -> TopicTableDocument {
        let topics = self.topics();
        TopicTableDocument {
            data_version: self.topics_version(),
            topic_config_table: topics.iter().map(|t| (t.name.as_str().to_owned(), t.settings.clone())).collect(),
        }
    }

    /// The group table as a document.
    pub fn group_table(&self) -> GroupTableDocument {
        let (data_version, forbidden_table) = {
            let versions = self.changes.lock();
            (versions.groups, versions.forbidden.clone())
        };
        let groups = self.groups();
        GroupTableDocument {
            data_version,
            forbidden_table,
            subscription_group_table: groups.iter().map(|g| (g.group_name.clone(), (**g).clone())).collect(),
        }
    }

    /// Writes the documents that changed. Waits for the disk.
    pub fn save(&self, store: &Store) -> Result<(), StorageError> {
        let _one_at_a_time = self.saving.lock();
        if self.topics_unsaved.swap(false, Ordering::AcqRel) {
            let text = serde_json::to_string_pretty(&self.topic_table()).unwrap_or_default();
            store
                .write_document(TOPICS_FILE, &text)
                .inspect_err(|_| self.topics_unsaved.store(true, Ordering::Release))?;
        }
        if self.groups_unsaved.swap(false, Ordering::AcqRel) {
            let text = serde_json::to_string_pretty(&self.group_table()).unwrap_or_default();
            store
                .write_document(GROUPS_FILE, &text)
                .inspect_err(|_| self.groups_unsaved.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

pub(super) fn read_table<T: Default + serde::de::DeserializeOwned>(
    store: &Store,
    file: &str,
) -> Result<T, StorageError> {
    let Some(value) = store.read_document(file)? else { return Ok(T::default()) };
    serde_json::from_value(value).map_err(|error| StorageError::Damaged {
        path: store.directory().join("config").join(file),
        problem: format!("{error}; mend it by hand or restore the {file}.bak beside it"),
    })
}
