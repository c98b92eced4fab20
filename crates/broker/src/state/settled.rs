//! Offsets that consumers committed at a slave: its master hears of them when it is back.

use std::collections::BTreeMap;

use base::LogOffset;
use format::state::StateChange;
use format::state_documents::{POSITION, StateDocuments};
use format::state_tables::OffsetTable;
use serde_json::{Value, json};

/// Its document: no foreign broker reads it.
pub(crate) const SETTLED_FILE: &str = "sluiceSettledOffsets.json";

/// Field of its document.
const OF_SLAVE: &str = "ofSlave";

/// How far groups have come at this slave, in queues where they came further here.
#[derive(Debug, Default)]
pub(crate) struct SettledOffsets {
    table: OffsetTable,
    /// Changes that the master's log tells of below this are behind what was settled, or were met by it.
    met_until: LogOffset,
    /// Whether the broker that has left this was a slave, which does not know what its master handed out.
    of_slave: bool,
    is_unsaved: bool,
}

impl SettledOffsets {
    /// As its document has it.
    pub(crate) fn of(document: Value) -> Result<Self, serde_json::Error> {
        let met_until = LogOffset(document[POSITION].as_u64().unwrap_or_default());
        let of_slave = document[OF_SLAVE].as_bool().unwrap_or_default();
        let mut documents = StateDocuments::default();
        documents.take_in(format::state_documents::OFFSETS_FILE, document)?;
        Ok(Self { table: documents.offsets.unwrap_or_default(), met_until, of_slave, is_unsaved: false })
    }

    /// A broker begins, as a slave or not. Gives whether the one before was a slave.
    pub(crate) const fn begin(&mut self, is_slave: bool) -> bool {
        let was_slave = std::mem::replace(&mut self.of_slave, is_slave);
        self.is_unsaved |= was_slave != is_slave;
        was_slave
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

    /// The master's log tells of a change. Offsets that replace others, or remove them, are its last word. Of others it knows: what is beyond
    /// them here stands, and takes their place in the change.
    pub(crate) fn meet(&mut self, change: &mut StateChange) {
        let StateChange::Offsets { of, replaces, offsets } = change else { return };
        let Some(settled) = self.table.get_mut(of) else { return };
        let count = settled.len();
        settled.retain(|queue, offset| !*replaces && offsets.get(queue).is_none_or(|told| told < offset));
        for (queue, told) in offsets {
            *told = settled.get(queue).copied().unwrap_or(*told);
        }
        self.is_unsaved |= settled.len() < count;
        if settled.is_empty() {
            self.table.remove(of);
        }
    }

    /// The master's log tells that a topic was removed: one that is made in its place begins at 0. Gives changes that say so of groups that
    /// were beyond.
    pub(crate) fn forget_topic(&mut self, topic: &str) -> Vec<StateChange> {
        let is_in_it = |of: &String, _: &mut _| of.split_once('@').is_some_and(|(found, _)| found == topic);
        let gone = self.table.extract_if(.., is_in_it);
        let begins_anew = |(of, queues): (String, BTreeMap<u32, i64>)| {
            let offsets = queues.into_keys().map(|queue| (queue, 0)).collect();
            StateChange::Offsets { of, replaces: false, offsets }
        };
        let changes: Vec<_> = gone.map(begins_anew).collect();
        self.is_unsaved |= !changes.is_empty();
        changes
    }

    /// The same of changes that a start finds in a record of the master's log, unless they were met before.
    pub(super) fn meet_again(&mut self, record: LogOffset, changes: &[StateChange]) {
        if record < self.met_until || self.table.is_empty() {
            return;
        }
        for change in changes {
            match change {
                StateChange::TopicRemoved { name, .. } => drop(self.forget_topic(name)),
                change => self.meet(&mut change.clone()),
            }
        }
    }

    /// Changes were met that a record of the master's log tells of.
    pub(crate) fn note_met(&mut self, record: LogOffset) {
        self.met_until = self.met_until.max(record.after(1));
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
        let document = || json!({"offsetTable": self.table, POSITION: self.met_until.0, OF_SLAVE: self.of_slave});
        std::mem::take(&mut self.is_unsaved).then(document)
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
    fn what_the_masters_log_tells_leaves_what_is_beyond() {
        let mut settled = SettledOffsets::default();
        settled.note(&commit("a@g", false, &[(0, 5), (1, 7), (2, 7)]));
        settled.note(&commit("b@g", false, &[(0, 5)]));
        settled.note_met(LogOffset(99));
        let mut told = commit("a@g", false, &[(0, 6), (1, 2), (3, 1)]);
        settled.meet(&mut told);
        assert_eq!(told, commit("a@g", false, &[(0, 6), (1, 7), (3, 1)]));
        assert_eq!(settled.table()["a@g"], BTreeMap::from([(1, 7), (2, 7)]));
        let mut again = SettledOffsets::of(settled.take_to_save().expect("something new")).expect("reads");
        let replaced = [commit("a@g", true, &[(1, 1)])];
        again.meet_again(LogOffset(99), &replaced);
        assert_eq!(again.table(), settled.table(), "that was before");
        again.meet_again(LogOffset(100), &replaced);
        assert_eq!(again.table().keys().collect::<Vec<_>>(), ["b@g"]);
        assert_eq!(again.forget_topic("b"), [commit("b@g", false, &[(0, 0)])]);
        assert!(again.table().is_empty() && again.take_to_save().is_some());
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
        assert_eq!(
            settled.take_to_save(),
            Some(json!({OF_SLAVE: false, "offsetTable": {"a@g": {"1": 7}}, "sluiceLogPosition": 0}))
        );
        settled.retain(|_, _, _| true);
        assert_eq!(settled.take_to_save(), None, "nothing has gone");
    }
}
