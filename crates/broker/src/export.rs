//! The documents for a foreign broker that takes the directory over: written behind the log, one save at a time.

use std::sync::Arc;

use base::{LogOffset, Now};
use parking_lot::Mutex;
use serde::Serialize;
use storage::{StorageError, Store};

use crate::catalog::Catalog;
use crate::cursor::offset::Offsets;
use crate::following::Tables;
use crate::parked::delay::Delay;
use crate::request_modes::RequestModes;
use crate::state::{
    DELAY_FILE, GROUPS_FILE, OFFSETS_FILE, REQUEST_MODES_FILE, SETTLED_FILE, StateLog, TOPICS_FILE, documents,
};

/// Writes the documents.
#[derive(Debug)]
pub(crate) struct Exports {
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    delay: Arc<Delay>,
    request_modes: Arc<RequestModes>,
    state: Arc<StateLog>,
    store: Arc<Store>,
    /// Whether what is answered is on the disk.
    is_durable: bool,
    exporting: Mutex<()>,
}

impl Exports {
    pub(crate) fn new(
        state: &Arc<StateLog>,
        (catalog, offsets, delay, request_modes): Tables<'_>,
        is_durable: bool,
    ) -> Self {
        Self {
            catalog: catalog.clone(),
            offsets: offsets.clone(),
            delay: delay.clone(),
            request_modes: request_modes.clone(),
            state: state.clone(),
            store: state.store().clone(),
            is_durable,
            exporting: Mutex::default(),
        }
    }

    /// Has every change of before kept, also in the documents. Waits for the disk.
    pub(crate) fn save(&self, now: Now) -> Result<(), StorageError> {
        let _one_at_a_time = self.exporting.lock();
        self.export(now)
    }

    /// Writes the documents of what has changed: never ahead of the log on the disk. One at a time.
    fn export(&self, now: Now) -> Result<(), StorageError> {
        self.offsets.keep(now)?;
        self.store.write_staged()?;
        if self.store.watermarks().committed() < self.state.end() {
            // It may yet be taken back: it is written once it is committed.
            return Ok(());
        }
        // What the log has below is in the documents, whatever comes into them meanwhile.
        let position = self.state.position();
        let topics = self.catalog.take_topics_to_export();
        let groups = self.catalog.take_groups_to_export();
        let offsets = self.offsets.take_to_export(now);
        let delay = self.delay.take_to_export(now);
        let modes = self.request_modes.take_to_export();
        // Asked for last: what came beside the log meanwhile is in them already, or comes into them next time.
        let is_in_log = self.state.position_in_log().is_some();
        if topics.is_none() && groups.is_none() && offsets.is_none() && delay.is_none() && modes.is_none() {
            if self.is_durable {
                self.store.sync_until(position)?;
            }
            return self.save_settled();
        }
        let write = || {
            // And of what came into them meanwhile nothing is ahead of the log on the disk.
            self.offsets.keep(now)?;
            self.store.sync_until(self.state.position())?;
            let position = is_in_log.then_some(position);
            topics.map_or(Ok(()), |table| self.write_document(TOPICS_FILE, &table, position, now))?;
            groups.map_or(Ok(()), |table| self.write_document(GROUPS_FILE, &table, position, now))?;
            offsets.map_or(Ok(()), |table| self.write_document(OFFSETS_FILE, &table, position, now))?;
            delay.map_or(Ok(()), |table| self.write_document(DELAY_FILE, &table, position, now))?;
            modes.map_or(Ok(()), |table| self.write_document(REQUEST_MODES_FILE, &table, position, now))
        };
        write().inspect_err(|_| {
            self.catalog.note_unexported();
            self.offsets.note_unexported();
            self.delay.note_unexported();
            self.request_modes.note_unexported();
        })?;
        // Last: a slave that has become a master forgets it once the log has it.
        self.save_settled()
    }

    /// Writes what a slave's master has yet to hear of.
    pub(crate) fn save_told(&self) -> Result<(), StorageError> {
        let _one_at_a_time = self.exporting.lock();
        self.save_settled()
    }

    fn save_settled(&self) -> Result<(), StorageError> {
        let document = self.state.settled().lock().take_to_save();
        let Some(document) = document else { return Ok(()) };
        let written = self.store.write_document(SETTLED_FILE, &document.to_string());
        written.inspect_err(|_| self.state.settled().lock().note_unsaved())
    }

    fn write_document(
        &self,
        name: &str,
        table: &impl Serialize,
        position: Option<LogOffset>,
        now: Now,
    ) -> Result<(), StorageError> {
        self.store.write_document(name, &documents::text(name, table, position))?;
        self.state.note_exported(name, now)
    }
}
