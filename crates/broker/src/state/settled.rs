//! Offsets that consumers committed at a slave: its master hears of them when it is back.

use format::state::StateChange;
use format::state_documents::StateDocuments;
use format::state_tables::OffsetTable;
use serde_json::{Value, json};

/// Its document: no foreign broker reads it.
pub(crate) const SETTLED_FILE: &str = "sluiceSettledOffsets.json";

/// How far groups have come at this slave, in queues where they came further here.
#[derive(Debug, Default)]
pub(crate) struct SettledOffsets {
    table: OffsetTable,
    is_unsaved: bool,
}

impl SettledOffsets {
    /// As its document has it.
    pub(crate) fn of(document: Value) -> Result<Self, serde_json::Error> {
        let mut documents = StateDocuments::default();
        documents.take_in(format::state_documents::OFFSETS_FILE, document)?;
        Ok(Self { table: documents.offsets.unwrap_or_default(), is_unsaved: false })
    }

    /// All of them.
    pub(crate) const fn table(&self) -> &OffsetTable {
        &self.table
    }

    /// A change was made at the slave.
    pub(super) fn note(&mut self, change: &StateChange) {
        let StateChange::Offsets { of, replaces, offsets } = change else { return };
        self.is_unsaved = true;
        if *replaces {
            self.table.remove(of);
        }
        if !offsets.is_empty() {
            self.table.entry(of.clone()).or_default().extend(offsets);
        }
    }

    /// The master knows.
    pub(crate) fn clear(&mut self) {
        self.is_unsaved |= !self.table.is_empty();
        self.table.clear();
    }

    /// The document, if it has changed since it was last asked for here.
    pub(crate) fn take_to_save(&mut self) -> Option<Value> {
        std::mem::take(&mut self.is_unsaved).then(|| json!({"offsetTable": self.table}))
    }

    /// It could not be written.
    pub(crate) const fn note_unsaved(&mut self) {
        self.is_unsaved = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn commit(of: &str, replaces: bool, offsets: &[(u32, i64)]) -> StateChange {
        StateChange::Offsets { of: of.to_owned(), replaces, offsets: offsets.iter().copied().collect() }
    }

    #[test]
    fn what_was_committed_last_is_kept_until_the_master_knows() {
        let mut settled = SettledOffsets::default();
        assert_eq!(settled.take_to_save(), None);
        settled.note(&commit("a@g", false, &[(0, 5), (1, 7)]));
        settled.note(&commit("a@g", false, &[(0, 6)]));
        settled.note(&commit("b@g", false, &[(0, 1)]));
        settled.note(&commit("b@g", true, &[]));
        let document = settled.take_to_save().expect("something new");
        let again = SettledOffsets::of(document).expect("reads");
        assert_eq!(again.table(), &OffsetTable::from([("a@g".to_owned(), BTreeMap::from([(0, 6), (1, 7)]))]));
        assert_eq!(settled.take_to_save(), None);
        settled.clear();
        assert_eq!(settled.take_to_save(), Some(json!({"offsetTable": {}})));
        settled.clear();
        assert_eq!(settled.take_to_save(), None, "nothing was to be cleared");
    }
}
