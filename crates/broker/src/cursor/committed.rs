//! The table of committed offsets, by topic and group, and what of it the log does not have yet. What concerns one topic, or one group, is
//! found without a look at the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use base::limits::OFFSET_PAIRS_MAX;
use format::state::StateChange;

use crate::RawOffset;
use crate::state::OffsetTable;

/// One group's offsets in one topic, by queue.
pub(crate) type QueueTable = BTreeMap<u32, RawOffset>;

#[derive(Debug, Default)]
struct Pair {
    /// Shared with whoever has been given all of them.
    offsets: Arc<QueueTable>,
    /// Queues whose offset is not in the log yet.
    unkept: BTreeSet<u32>,
}

/// Every committed offset.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// By topic, then group.
    pairs: HashMap<String, HashMap<String, Pair>>,
    topics_by_group: HashMap<String, BTreeSet<String>>,
    /// Topics and groups with offsets that are not in the log yet.
    changed: Vec<(String, String)>,
    /// How often `take_unkept` was called.
    round: u64,
    /// Pairs of topic and group.
    count: usize,
}

/// The name of a topic and a group as documents and changes of state have it.
pub(crate) fn key(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

impl Committed {
    /// What a start knows. A key that names no group is left out: nobody can ask for it.
    pub(crate) fn of(table: OffsetTable) -> Self {
        let mut committed = Self::default();
        for (key, offsets) in table {
            if let Some((topic, group)) = key.split_once('@') {
                committed.pair(topic, group).offsets = Arc::new(offsets);
            }
        }
        committed
    }

    pub(crate) fn get(&self, topic: &str, group: &str) -> Option<&QueueTable> {
        Some(&self.pairs.get(topic)?.get(group)?.offsets)
    }

    fn pair(&mut self, topic: &str, group: &str) -> &mut Pair {
        let is_known = self.pairs.get(topic).is_some_and(|groups| groups.contains_key(group));
        if !is_known {
            self.topics_by_group.entry(group.to_owned()).or_default().insert(topic.to_owned());
            self.pairs.entry(topic.to_owned()).or_default().insert(group.to_owned(), Pair::default());
            self.count += 1;
        }
        let pair = self.pairs.get_mut(topic).and_then(|groups| groups.get_mut(group));
        #[allow(clippy::expect_used, reason = "it was put there above")]
        pair.expect("the pair")
    }

    /// Whether offsets of a group in a topic can be kept.
    pub(crate) fn has_room(&self, topic: &str, group: &str) -> bool {
        self.count < OFFSET_PAIRS_MAX || self.get(topic, group).is_some()
    }

    pub(crate) fn put(&mut self, topic: &str, group: &str, queue: u32, offset: RawOffset) {
        let pair = self.pair(topic, group);
        if pair.offsets.get(&queue) == Some(&offset) {
            return;
        }
        Arc::make_mut(&mut pair.offsets).insert(queue, offset);
        let is_first = pair.unkept.is_empty();
        pair.unkept.insert(queue);
        if is_first {
            self.changed.push((topic.to_owned(), group.to_owned()));
        }
    }

    /// Replaces a group's offsets in a topic, which the log has; by none if the table is empty.
    pub(crate) fn replace(&mut self, topic: &str, group: &str, offsets: QueueTable) {
        if !offsets.is_empty() {
            *self.pair(topic, group) = Pair { offsets: Arc::new(offsets), unkept: BTreeSet::new() };
            return;
        }
        if let Some(groups) = self.pairs.get_mut(topic) {
            self.count -= usize::from(groups.remove(group).is_some());
            if groups.is_empty() {
                self.pairs.remove(topic);
            }
        }
        if let Some(topics) = self.topics_by_group.get_mut(group) {
            topics.remove(topic);
            if topics.is_empty() {
                self.topics_by_group.remove(group);
            }
        }
    }

    /// How often what the log lacks was taken: what is put from here on is taken next.
    pub(crate) const fn round(&self) -> u64 {
        self.round
    }

    /// Takes what is not in the log yet, as changes.
    pub(crate) fn take_unkept(&mut self) -> Vec<StateChange> {
        self.round += 1;
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        let mut changes = Vec::with_capacity(changed.len());
        for (topic, group) in changed {
            let Some(pair) = self.pairs.get_mut(&topic).and_then(|groups| groups.get_mut(&group)) else { continue };
            let queues = std::mem::take(&mut pair.unkept);
            let offsets: QueueTable =
                queues.into_iter().filter_map(|queue| Some((queue, *pair.offsets.get(&queue)?))).collect();
            if !offsets.is_empty() {
                changes.push(StateChange::Offsets { of: key(&topic, &group), replaces: false, offsets });
            }
        }
        changes
    }

    /// They could not be put into the log.
    pub(crate) fn put_back(&mut self, changes: Vec<StateChange>) {
        for change in changes {
            let StateChange::Offsets { of, offsets, .. } = change else { continue };
            let Some((topic, group)) = of.split_once('@') else { continue };
            let Some(pair) = self.pairs.get_mut(topic).and_then(|groups| groups.get_mut(group)) else { continue };
            if pair.unkept.is_empty() {
                self.changed.push((topic.to_owned(), group.to_owned()));
            }
            pair.unkept.extend(offsets.into_keys());
        }
    }

    /// Topics a group has offsets in, sorted.
    pub(crate) fn topics_of(&self, group: &str) -> Vec<String> {
        self.topics_by_group.get(group).into_iter().flatten().cloned().collect()
    }

    /// Groups that have offsets in a topic, sorted.
    pub(crate) fn groups_in(&self, topic: &str) -> Vec<String> {
        let mut groups: Vec<_> = self.pairs.get(topic).into_iter().flat_map(HashMap::keys).cloned().collect();
        groups.sort_unstable();
        groups
    }

    /// Topics that a group has offsets in.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.pairs.keys().cloned().collect()
    }

    /// Every group's offsets in a topic, shared.
    pub(crate) fn groups_of(&self, topic: &str) -> Vec<(String, Arc<QueueTable>)> {
        let groups = self.pairs.get(topic).into_iter().flatten();
        groups.map(|(group, pair)| (group.clone(), pair.offsets.clone())).collect()
    }

    /// Every group's offsets in every topic.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str, &QueueTable)> {
        self.pairs.iter().flat_map(|(topic, groups)| {
            groups.iter().map(move |(group, pair)| (topic.as_str(), group.as_str(), &*pair.offsets))
        })
    }

    /// The same as the document has it.
    pub(crate) fn table(&self) -> BTreeMap<String, &QueueTable> {
        self.all().map(|(topic, group, offsets)| (key(topic, group), offsets)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(of: &str, offsets: &[(u32, RawOffset)]) -> StateChange {
        StateChange::Offsets { of: of.to_owned(), replaces: false, offsets: offsets.iter().copied().collect() }
    }

    #[test]
    fn of_several_commits_of_a_queue_the_last_is_taken_once() {
        let mut committed = Committed::default();
        committed.put("b", "g", 1, 5);
        committed.put("a", "g", 0, 7);
        committed.put("b", "g", 1, 6);
        committed.put("b", "g", 0, 1);
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 7)]), change("b@g", &[(0, 1), (1, 6)])]);
        committed.put("b", "g", 1, 6);
        assert_eq!(committed.take_unkept(), [], "nothing new");
        assert_eq!(committed.round(), 2);
    }

    #[test]
    fn what_could_not_be_kept_is_taken_again_with_what_came_since() {
        let mut committed = Committed::default();
        committed.put("a", "g", 0, 1);
        committed.put("a", "g", 1, 1);
        let taken = committed.take_unkept();
        committed.put("a", "g", 0, 2);
        committed.put_back(taken);
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 2), (1, 1)])]);
        committed.put("a", "g", 0, 3);
        let taken = committed.take_unkept();
        committed.replace("a", "g", QueueTable::new());
        committed.put_back(taken);
        assert_eq!(committed.take_unkept(), [], "it is forgotten");
    }

    #[test]
    fn topics_and_groups_know_each_other_for_as_long_as_there_are_offsets() {
        let mut committed = Committed::of([("a@g".to_owned(), QueueTable::from([(0, 4)]))].into());
        committed.put("b", "g", 0, 1);
        committed.put("a", "h", 0, 1);
        assert_eq!(
            (committed.topics_of("g"), committed.groups_in("a")),
            (vec!["a".into(), "b".into()], vec!["g".into(), "h".into()])
        );
        committed.replace("a", "g", QueueTable::new());
        assert_eq!((committed.topics_of("g"), committed.groups_in("a")), (vec!["b".into()], vec!["h".into()]));
        assert_eq!(committed.table().into_keys().collect::<Vec<_>>(), ["a@h", "b@g"]);
    }
}
