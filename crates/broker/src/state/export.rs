//! The documents of a broker that is stopped, also by a kill: a foreign broker that is started next sees every change of state.
//!
//! Nothing else in the directory is changed: entries, keys and the log's end are for whoever opens it next.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base::{LogOffset, Now};
use format::request_mode::RequestModeTableDocument;
use format::state_documents::{FILES, GROUPS_FILE, OFFSETS_FILE, REQUEST_MODES_FILE, TOPICS_FILE};
use serde_json::{Value, json};
use storage::{RecoveryProgress, StorageError};

use super::{OpenedState, documents};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Each document.
    pub written: Vec<Written>,
    /// Documents that a foreign broker has written since, which stay as they are.
    pub left: Vec<PathBuf>,
    /// What the log says below this is in them.
    pub log_end: LogOffset,
}

/// A document that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its file.
    pub path: PathBuf,
    /// How many entries it has,
    pub count: usize,
    /// and of what.
    pub unit: &'static str,
}

/// Writes the documents of a directory that no broker is at work on; `None` if there is no state of ours in it. Waits for the disk.
pub fn export_documents(
    store: &storage::Options,
    now: Now,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Option<Exported>, StorageError> {
    let (disk, directory) = (&store.disk, &store.directory);
    let _lock = disk.lock_directory(directory)?;
    let (opened, log_end) = OpenedState::read_with_log(store, progress)?;
    if !opened.is_ours() {
        return Ok(None);
    }
    // A document is never ahead of the log on the disk.
    disk.sync_everything(store.log_directory.as_deref().unwrap_or(directory))?;
    let news: BTreeSet<_> = opened.foreign_news().collect();
    let mut exported = Exported { written: Vec::new(), left: Vec::new(), log_end };
    for name in FILES {
        let path = directory.join("config").join(name);
        if news.contains(name) {
            exported.left.push(path);
            continue;
        }
        let (document, count, unit) = document_of(&opened, name, now);
        storage::write_document(disk, directory, name, &documents::text(name, &document, Some(log_end)))?;
        exported.written.push(Written { path, count, unit });
    }
    Ok(Some(exported))
}

/// A document, how many entries it has, and of what.
fn document_of(opened: &OpenedState, name: &str, now: Now) -> (Value, usize, &'static str) {
    let tables = &opened.tables;
    match name {
        TOPICS_FILE => (json!(tables.topics), tables.topics.topic_config_table.len(), "topics"),
        GROUPS_FILE => (json!(tables.groups), tables.groups.subscription_group_table.len(), "groups"),
        OFFSETS_FILE => {
            let document = documents::offsets(opened.offsets_version + 1, &tables.offsets, now);
            (document, tables.offsets.len(), "pairs of topic and group")
        }
        REQUEST_MODES_FILE => {
            let table = RequestModeTableDocument { message_request_mode_map: tables.request_modes.clone() };
            let count = tables.request_modes.values().map(|groups| groups.len()).sum();
            (json!(table), count, "modes of topic and group")
        }
        _ => (documents::delay(&tables.delay, now), tables.delay.len(), "delay levels"),
    }
}
