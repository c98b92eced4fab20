//! All that changes of state have led to, as plain tables: what a start is given, what changes are told apart from, and what a check holds
//! RocketMQ's documents against.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{DataVersion, GroupTableDocument, TopicTableDocument};
use crate::lease::LeaseState;
use crate::model_tables::ModelTables;
use crate::request_mode::RequestModes;
use crate::state::StateChange;

/// Committed offsets by `topic@group` and queue.
pub type OffsetTable = BTreeMap<String, BTreeMap<u32, i64>>;

/// What groups have settled message by message, by `topic@group` and queue.
pub type LeaseTable = BTreeMap<String, BTreeMap<u32, LeaseState>>;

/// The state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateTables {
    /// Topics with their settings.
    pub topics: TopicTableDocument,
    /// Groups with their settings.
    pub groups: GroupTableDocument,
    /// Committed offsets.
    pub offsets: OffsetTable,
    /// What groups have settled message by message.
    pub leases: LeaseTable,
    /// How far each delay level is delivered.
    pub delay: BTreeMap<u32, u64>,
    /// Checksums of documents of a Java broker that were taken in.
    pub imported: BTreeMap<String, u32>,
    /// How groups ask for messages.
    pub request_modes: RequestModes,
    /// Virtual hosts and what is in them.
    pub model: ModelTables,
}

impl StateTables {
    /// Takes in a change.
    pub fn apply(&mut self, change: StateChange) {
        match change {
            StateChange::Topic { settings, version } => {
                raise(&mut self.topics.data_version, version);
                self.topics.topic_config_table.insert(settings.topic_name.clone(), *settings);
            }
            StateChange::TopicRemoved { name, version } => {
                raise(&mut self.topics.data_version, version);
                self.topics.topic_config_table.remove(&name);
            }
            StateChange::Group { settings, version } => {
                raise(&mut self.groups.data_version, version);
                self.groups.subscription_group_table.insert(settings.group_name.clone(), *settings);
            }
            StateChange::GroupRemoved { name, version } => {
                raise(&mut self.groups.data_version, version);
                self.groups.subscription_group_table.remove(&name);
            }
            StateChange::Offsets { of, replaces, offsets } => {
                if replaces && offsets.is_empty() {
                    self.offsets.remove(&of);
                    return;
                }
                let known = self.offsets.entry(of).or_default();
                if replaces {
                    *known = offsets;
                } else {
                    known.extend(offsets);
                }
            }
            StateChange::Delay { level, delivered } => {
                self.delay.insert(level, delivered);
            }
            StateChange::Imported { document, checksum } => {
                self.imported.insert(document, checksum);
            }
            StateChange::Leases { of, queue, replaces, change } => {
                let known = self.leases.entry(of).or_default().entry(queue).or_default();
                if replaces {
                    *known = LeaseState::default();
                }
                known.apply(&change);
            }
            StateChange::LeasesRemoved { of } => drop(self.leases.remove(&of)),
            StateChange::RequestMode { settings } => {
                let groups = self.request_modes.entry(settings.topic.clone()).or_default();
                groups.insert(settings.consumer_group.clone(), *settings);
            }
            StateChange::RequestModeRemoved { topic, group } => {
                let Some(groups) = self.request_modes.get_mut(&topic) else { return };
                groups.remove(&group);
                if groups.is_empty() {
                    self.request_modes.remove(&topic);
                }
            }
            StateChange::Model(change) => self.model.apply(*change),
        }
    }

    /// Changes that lead from nothing to these tables.
    pub fn all_changes(&self) -> Vec<StateChange> {
        let nothing = Self::default();
        let documents = self.imported.iter();
        let imported = documents
            .map(|(document, &checksum)| StateChange::Imported { document: document.clone(), checksum })
            .collect();
        [
            nothing.topic_changes_to(&self.topics),
            nothing.group_changes_to(&self.groups),
            nothing.offset_changes_to(&self.offsets),
            nothing.delay_changes_to(&self.delay),
            lease_changes(&self.leases).collect(),
            imported,
            nothing.request_mode_changes_to(&self.request_modes),
            self.model.all_changes().map(|change| StateChange::Model(Box::new(change))).collect(),
        ]
        .concat()
    }

    /// Changes after which topics are as another table has them.
    pub fn topic_changes_to(&self, other: &TopicTableDocument) -> Vec<StateChange> {
        let (known, wanted) = (&self.topics.topic_config_table, &other.topic_config_table);
        let version = other.data_version;
        let put = wanted.iter().filter(|(name, settings)| known.get(*name) != Some(settings));
        let put = put.map(|(_, settings)| StateChange::Topic { settings: Box::new(settings.clone()), version });
        let gone = known.keys().filter(|name| !wanted.contains_key(*name));
        put.chain(gone.map(|name| StateChange::TopicRemoved { name: name.clone(), version })).collect()
    }

    /// The same of groups.
    pub fn group_changes_to(&self, other: &GroupTableDocument) -> Vec<StateChange> {
        let (known, wanted) = (&self.groups.subscription_group_table, &other.subscription_group_table);
        let version = other.data_version;
        let put = wanted.iter().filter(|(name, settings)| known.get(*name) != Some(settings));
        let put = put.map(|(_, settings)| StateChange::Group { settings: Box::new(settings.clone()), version });
        let gone = known.keys().filter(|name| !wanted.contains_key(*name));
        put.chain(gone.map(|name| StateChange::GroupRemoved { name: name.clone(), version })).collect()
    }

    /// The same of committed offsets.
    pub fn offset_changes_to(&self, other: &OffsetTable) -> Vec<StateChange> {
        let put = other.iter().filter(|(of, offsets)| self.offsets.get(*of) != Some(offsets));
        let put = put.map(|(of, offsets)| (of, offsets.clone()));
        let gone = self.offsets.keys().filter(|of| !other.contains_key(*of)).map(|of| (of, BTreeMap::new()));
        let replaced = |(of, offsets): (&String, _)| StateChange::Offsets { of: of.clone(), replaces: true, offsets };
        put.chain(gone).map(replaced).collect()
    }

    /// The same of delay progress; levels come and do not go, and one that is not there is at 0: a Java broker's document has all levels.
    pub fn delay_changes_to(&self, other: &BTreeMap<u32, u64>) -> Vec<StateChange> {
        let known = |level| self.delay.get(level).copied().unwrap_or_default();
        let put = other.iter().filter(|&(level, &delivered)| known(level) != delivered);
        put.map(|(&level, &delivered)| StateChange::Delay { level, delivered }).collect()
    }

    /// The same of how groups ask for messages.
    pub fn request_mode_changes_to(&self, other: &RequestModes) -> Vec<StateChange> {
        let of = |modes: &RequestModes, topic: &str, group: &str| modes.get(topic)?.get(group).cloned();
        let put = other.iter().flat_map(|(topic, groups)| groups.iter().map(move |entry| (topic, entry)));
        let put =
            put.filter(|(topic, (group, settings))| of(&self.request_modes, topic, group).as_ref() != Some(*settings));
        let put = put.map(|(_, (_, settings))| StateChange::RequestMode { settings: Box::new(settings.clone()) });
        let known =
            self.request_modes.iter().flat_map(|(topic, groups)| groups.keys().map(move |group| (topic, group)));
        let gone = known.filter(|(topic, group)| of(other, topic, group).is_none());
        let removed =
            gone.map(|(topic, group)| StateChange::RequestModeRemoved { topic: topic.clone(), group: group.clone() });
        put.chain(removed).collect()
    }
}

/// Changes that lead from nothing to these leases.
pub fn lease_changes(leases: &LeaseTable) -> impl Iterator<Item = StateChange> {
    let lanes = leases.iter().flat_map(|(of, queues)| queues.iter().map(move |(queue, state)| (of, *queue, state)));
    lanes.map(|(of, queue, state)| StateChange::Leases {
        of: of.clone(),
        queue,
        replaces: true,
        change: state.change(),
    })
}

/// Changes that lead from some leases to others.
pub fn lease_changes_between(known: &LeaseTable, wanted: &LeaseTable) -> Vec<StateChange> {
    let lacks = |of: &str, queue| wanted.get(of).is_none_or(|queues| !queues.contains_key(queue));
    let gone: BTreeSet<_> =
        known.iter().filter(|(of, queues)| queues.keys().any(|queue| lacks(of, queue))).map(|(of, _)| of).collect();
    let removed = gone.iter().map(|of| StateChange::LeasesRemoved { of: (*of).clone() });
    let is_news = |change: &StateChange| match change {
        StateChange::Leases { of, queue, .. } if !gone.contains(of) => {
            known.get(of).and_then(|queues| queues.get(queue)) != wanted.get(of).and_then(|queues| queues.get(queue))
        }
        _ => true,
    };
    removed.chain(lease_changes(wanted).filter(is_news)).collect()
}

/// Changes of a snapshot are not in the order in which they were made: the highest version counts.
fn raise(known: &mut DataVersion, version: DataVersion) {
    if version.counter > known.counter {
        *known = version;
    }
}

#[cfg(test)]
mod tests {
    use base::QueueOffset;

    use crate::document::{GroupDocument, TopicDocument};
    use crate::request_mode::{RequestMode, RequestModeDocument};

    use super::*;

    fn tables(
        topics: &[(&str, u32)],
        groups: &[&str],
        offsets: &[(&str, u32, i64)],
        delay: &[(u32, u64)],
    ) -> StateTables {
        let mut tables = StateTables::default();
        let version = DataVersion { counter: 3, ..DataVersion::default() };
        tables.topics.data_version = version;
        tables.groups.data_version = version;
        for &(name, queues) in topics {
            let settings =
                TopicDocument { topic_name: name.to_owned(), read_queue_nums: queues, ..TopicDocument::default() };
            tables.topics.topic_config_table.insert(name.to_owned(), settings);
        }
        for &name in groups {
            let settings = GroupDocument { group_name: name.to_owned(), ..GroupDocument::default() };
            tables.groups.subscription_group_table.insert(name.to_owned(), settings);
        }
        for &(of, queue, offset) in offsets {
            tables.offsets.entry(of.to_owned()).or_default().insert(queue, offset);
        }
        tables.delay = delay.iter().copied().collect();
        tables
    }

    fn changes_between(from: &StateTables, to: &StateTables) -> Vec<StateChange> {
        let parts = [from.topic_changes_to(&to.topics), from.group_changes_to(&to.groups)];
        let modes = from.request_mode_changes_to(&to.request_modes);
        [&parts[..], &[from.offset_changes_to(&to.offsets), from.delay_changes_to(&to.delay), modes]].concat().concat()
    }

    fn with_modes(mut tables: StateTables, modes: &[(&str, &str, RequestMode)]) -> StateTables {
        for &(topic, group, mode) in modes {
            let settings = RequestModeDocument {
                topic: topic.to_owned(),
                consumer_group: group.to_owned(),
                mode,
                pop_share_queue_num: 1,
            };
            tables.apply(StateChange::RequestMode { settings: Box::new(settings) });
        }
        tables
    }

    #[test]
    fn the_changes_between_two_states_lead_from_one_to_the_other_also_if_they_are_applied_twice() {
        let states = [
            tables(&[("gone", 1)], &["gone"], &[("gone@gone", 0, 4)], &[(1, 5)]),
            tables(&[("a", 4), ("b", 8)], &["billing"], &[("a@billing", 0, 7), ("a@billing", 3, 9)], &[(1, 5), (2, 6)]),
            tables(&[("a", 5), ("b", 8)], &["billing", "x"], &[("a@billing", 0, 6)], &[(1, 6), (2, 6)]),
        ];
        let [first, second, third] = states;
        let states = [
            with_modes(first, &[("gone", "gone", RequestMode::Pop), ("a", "billing", RequestMode::Pop)]),
            with_modes(second, &[("a", "billing", RequestMode::Pull), ("a", "x", RequestMode::Pop)]),
            third,
        ];
        for from in &states {
            for to in &states {
                let mut applied = from.clone();
                for change in [changes_between(from, to), changes_between(from, to)].concat() {
                    applied.apply(change);
                }
                // Levels come and do not go.
                applied.delay.retain(|level, _| to.delay.contains_key(level));
                assert_eq!(applied, *to);
            }
        }
        let mut at_rest = states[0].clone();
        at_rest.delay.extend([(2, 0), (3, 0)]);
        assert_eq!(changes_between(&states[0], &at_rest), []);
        at_rest.delay.insert(1, 0);
        assert_eq!(changes_between(&states[0], &at_rest), [StateChange::Delay { level: 1, delivered: 0 }]);
        let mut wanted = states[1].clone();
        wanted.imported.insert("topics.json".to_owned(), 7);
        let mut lane = LeaseState { delivered_until: QueueOffset(9), ..LeaseState::default() };
        lane.settled.add(QueueOffset(3)..QueueOffset(5));
        wanted.leases.insert("a@billing".to_owned(), BTreeMap::from([(2, lane)]));
        let mut again = StateTables::default();
        wanted.all_changes().into_iter().for_each(|change| again.apply(change));
        assert_eq!(again, wanted);
    }
}
