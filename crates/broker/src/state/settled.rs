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

    /// Keeps those for which `is_owed` says so of topic and group, queue and offset.
    pub(crate) fn retain(&mut self, mut is_owed: impl FnMut(&str, u32, i64) -> bool) {
        let mut has_changed = false;
        self.table.retain(|of, queues| {
            let count = queues.len();
            queues.retain(|queue, offset| is_owed(of, *queue, *offset));
            has_changed |= queues.len() < count;
            !queues.is_empty()
        });
        self.is_unsaved |= has_changed;
    }

    /// `table` with each of them that is beyond what it says.
    pub(crate) fn laid_over(&self, mut table: OffsetTable) -> OffsetTable {
        for (of, queues) in &self.table {
            let known = table.entry(of.clone()).or_default();
            for (queue, offset) in queues {
                let known = known.entry(*queue).or_insert(*offset);
                *known = (*known).max(*offset);
            }
        }
        table
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
        let masters = OffsetTable::from([("a@g".to_owned(), BTreeMap::from([(0, 9), (1, 2)]))]);
        assert_eq!(settled.laid_over(masters)["a@g"], BTreeMap::from([(0, 9), (1, 7)]));
        settled.retain(|_, queue, _| queue == 1);
        assert_eq!(settled.take_to_save(), Some(json!({"offsetTable": {"a@g": {"1": 7}}})));
        settled.retain(|_, _, _| true);
        assert_eq!(settled.take_to_save(), None, "nothing has gone");
    }
}
