//! How groups ask for messages of a topic, where an administrator has said so; nothing is said of most.
//!
//! Each change is a record of the log, appended before it is visible here. What was said stays when topic or group go, and counts again
//! if they are made anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::limits::REQUEST_MODES_MAX;
use base::{Now, Refusal};
use format::request_mode::{RequestModeDocument, RequestModeTableDocument};
use format::state::StateChange;
use parking_lot::Mutex;

use crate::error::refusal_of;
use crate::state::{StateLog, StateTables};

/// The modes.
#[derive(Debug)]
pub struct RequestModes {
    /// Only its modes are used.
    table: Mutex<StateTables>,
    /// Whether the document lacks something.
    unexported: AtomicBool,
    state: Arc<StateLog>,
}

impl RequestModes {
    pub(crate) fn open(request_modes: format::request_mode::RequestModes, state: &Arc<StateLog>) -> Self {
        Self {
            table: Mutex::new(StateTables { request_modes, ..StateTables::default() }),
            unexported: AtomicBool::new(true),
            state: state.clone(),
        }
    }

    /// What was said of a topic and a group.
    pub fn of(&self, topic: &str, group: &str) -> Option<RequestModeDocument> {
        self.table.lock().request_modes.get(topic)?.get(group).cloned()
    }

    /// Has a group ask for a topic's messages in this way.
    pub fn set(&self, settings: RequestModeDocument, now: Now) -> Result<(), Refusal> {
        let mut table = self.table.lock();
        let modes = &table.request_modes;
        let known = modes.get(&settings.topic).and_then(|groups| groups.get(&settings.consumer_group));
        if known == Some(&settings) {
            return Ok(());
        }
        if known.is_none() && modes.values().map(|groups| groups.len()).sum::<usize>() >= REQUEST_MODES_MAX {
            return Err(Refusal::Busy(format!(
                "it is said of {REQUEST_MODES_MAX} pairs of topic and group how messages are asked for, and no more are kept"
            )));
        }
        let change = StateChange::RequestMode { settings: Box::new(settings) };
        self.state.propose(vec![change.clone()], now).map_err(refusal_of)?;
        table.apply(change);
        self.note_unexported();
        Ok(())
    }

    /// All of them as a document.
    pub fn table(&self) -> RequestModeTableDocument {
        RequestModeTableDocument { message_request_mode_map: self.table.lock().request_modes.clone() }
    }

    /// Whether the document lacks something.
    pub(crate) fn is_unexported(&self) -> bool {
        self.unexported.load(Ordering::Acquire)
    }

    /// The document, if it has changed since it was last asked for here.
    pub(crate) fn take_to_export(&self) -> Option<RequestModeTableDocument> {
        self.unexported.swap(false, Ordering::AcqRel).then(|| self.table())
    }

    /// The document could not be written, or is to be written anew.
    pub(crate) fn note_unexported(&self) {
        self.unexported.store(true, Ordering::Release);
    }

    /// Changes that lead to all of them.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        StateTables::default().request_mode_changes_to(&self.table.lock().request_modes)
    }

    /// Makes changes that a slave's master made.
    pub(crate) fn follow(&self, changes: Vec<StateChange>) {
        let mut table = self.table.lock();
        self.state.note(changes.clone());
        changes.into_iter().for_each(|change| table.apply(change));
        self.note_unexported();
    }
}
