//! The table of committed offsets, by topic and group, and what of it the log does not have yet. What concerns one topic, or one group, is
//! found without a look at the others, and a group's offsets in a topic are changed without a look at the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::limits::OFFSET_PAIRS_MAX;
use base::{QueueOffset, Refusal};
use format::state::StateChange;
use parking_lot::Mutex;

use crate::RawOffset;
use crate::state::OffsetTable;

/// One group's offsets in one topic, by queue.
pub(crate) type QueueTable = BTreeMap<u32, RawOffset>;

/// How far one group has come in one topic. A connection that commits keeps it at hand.
#[derive(Debug)]
pub struct OffsetCursor {
    topic: Arc<str>,
    group: Arc<str>,
    state: Mutex<CursorState>,
    unkept: Arc<Mutex<Unkept>>,
    /// Resets of all cursors that consumers have not heard of.
    resets: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct CursorState {
    /// Shared with whoever has been given all of them.
    offsets: Arc<QueueTable>,
    /// Queues whose offset is not in the log yet.
    unkept: BTreeSet<u32>,
    /// Where the group is to begin again, in queues whose consumer has not heard of it.
    resets: QueueTable,
    /// The table has it no longer: nothing may be put here any more.
    is_forgotten: bool,
}

/// What the log does not have yet.
#[derive(Debug, Default)]
struct Unkept {
    /// Who has such offsets, each once or, rarely, twice.
    cursors: Vec<Arc<OffsetCursor>>,
    /// How many rounds have ended.
    round: u64,
}

impl OffsetCursor {
    /// Takes a consumer's offset, unless it has to hear of a reset first: then that is of before. `false` if the cursor was forgotten
    /// meanwhile.
    pub(crate) fn put(self: &Arc<Self>, queue: u32, offset: RawOffset) -> bool {
        let mut state = self.state.lock();
        if !state.is_forgotten && !state.resets.contains_key(&queue) {
            self.set(&mut state, queue, offset);
        }
        !state.is_forgotten
    }

    /// Takes an administrator's offset; with `is_told` the consumer is to hear of it. `false` if the cursor was forgotten meanwhile.
    pub(crate) fn reset(self: &Arc<Self>, queue: u32, offset: RawOffset, is_told: bool) -> bool {
        let mut state = self.state.lock();
        if state.is_forgotten {
            return false;
        }
        self.set(&mut state, queue, offset);
        if is_told && state.resets.insert(queue, offset).is_none() {
            self.resets.fetch_add(1, Ordering::AcqRel);
        }
        true
    }

    /// Takes the floor of the group's leases, unless the offset is beyond, or was put back and the consumer has to hear of it.
    pub(crate) fn advance(self: &Arc<Self>, queue: u32, floor: RawOffset) {
        let mut state = self.state.lock();
        let is_behind = state.offsets.get(&queue).is_none_or(|offset| *offset < floor);
        if is_behind && !state.is_forgotten && !state.resets.contains_key(&queue) {
            self.set(&mut state, queue, floor);
        }
    }

    /// The queue is gone: one that comes in its place begins at 0. Whoever has no offset there needs none.
    pub(crate) fn begin_anew(self: &Arc<Self>, queue: u32) {
        let mut state = self.state.lock();
        if state.offsets.contains_key(&queue) {
            self.set(&mut state, queue, 0);
        }
    }

    /// The offset of a queue that ends at `end`, 0 if there is none. One beyond is at the end now: the next messages get the offsets there.
    pub(crate) fn draw_back(self: &Arc<Self>, queue: u32, end: QueueOffset) -> QueueOffset {
        let mut state = self.state.lock();
        let offset = state.offsets.get(&queue).map_or(0, |offset| u64::try_from(*offset).unwrap_or_default());
        if offset > end.0 {
            self.set(&mut state, queue, end.0 as RawOffset);
        }
        QueueOffset(offset).min(end)
    }

    fn set(self: &Arc<Self>, state: &mut CursorState, queue: u32, offset: RawOffset) {
        if state.offsets.get(&queue) == Some(&offset) {
            return;
        }
        Arc::make_mut(&mut state.offsets).insert(queue, offset);
        if state.unkept.is_empty() {
            self.unkept.lock().cursors.push(self.clone());
        }
        state.unkept.insert(queue);
    }

    /// The reset of a queue that its consumer has not heard of.
    pub(crate) fn reset_of(&self, queue: u32) -> Option<RawOffset> {
        self.state.lock().resets.get(&queue).copied()
    }

    /// The same, which the consumer hears of now.
    pub(crate) fn take_reset(&self, queue: u32) -> Option<RawOffset> {
        let taken = self.state.lock().resets.remove(&queue);
        self.resets.fetch_sub(usize::from(taken.is_some()), Ordering::AcqRel);
        taken
    }

    fn offsets(&self) -> Arc<QueueTable> {
        self.state.lock().offsets.clone()
    }

    /// Has offsets that the log has too; forgotten if there are none. Resets of before are void.
    fn replace(&self, offsets: QueueTable) {
        let mut state = self.state.lock();
        self.resets.fetch_sub(std::mem::take(&mut state.resets).len(), Ordering::AcqRel);
        state.is_forgotten = offsets.is_empty();
        state.offsets = Arc::new(offsets);
        state.unkept.clear();
    }

    /// Has offsets of a slave's master, all of them or some; what was committed here, is not kept yet, and is beyond those, stands. Forgotten
    /// if there are none at all: `false`.
    fn follow(&self, mut offsets: QueueTable, are_all: bool) -> bool {
        let mut state = self.state.lock();
        let CursorState { offsets: own, unkept, is_forgotten, .. } = &mut *state;
        unkept.retain(|queue| own.get(queue) > offsets.get(queue));
        offsets.extend(unkept.iter().filter_map(|queue| Some((*queue, *own.get(queue)?))));
        *is_forgotten = are_all && offsets.is_empty();
        if are_all {
            *own = Arc::new(offsets);
        } else {
            Arc::make_mut(own).extend(offsets);
        }
        !*is_forgotten
    }

    fn take_unkept(&self) -> Option<StateChange> {
        let mut state = self.state.lock();
        let queues = std::mem::take(&mut state.unkept);
        let offset_of = |queue| Some((queue, *state.offsets.get(&queue)?));
        let offsets: QueueTable = queues.into_iter().filter_map(offset_of).collect();
        let of = key(&self.topic, &self.group);
        (!offsets.is_empty()).then_some(StateChange::Offsets { of, replaces: false, offsets })
    }

    fn put_back(self: &Arc<Self>, queues: impl Iterator<Item = u32>) {
        let mut state = self.state.lock();
        if state.is_forgotten {
            return;
        }
        if state.unkept.is_empty() {
            self.unkept.lock().cursors.push(self.clone());
        }
        state.unkept.extend(queues);
    }
}

/// Every committed offset.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// By topic, then group.
    cursors: HashMap<Arc<str>, HashMap<Arc<str>, Arc<OffsetCursor>>>,
    topics_by_group: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Pairs of topic and group.
    count: usize,
    unkept: Arc<Mutex<Unkept>>,
    resets: Arc<AtomicUsize>,
}

/// No more offsets can be kept.
pub(crate) fn too_many_pairs() -> Refusal {
    Refusal::Busy(format!(
        "offsets of {OFFSET_PAIRS_MAX} pairs of topic and group are kept, and no more can be: remove groups that are not used, with \
         their offsets"
    ))
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
                committed.replace(topic, group, offsets);
            }
        }
        committed
    }

    /// A group's offsets in a topic.
    pub(crate) fn get(&self, topic: &str, group: &str) -> Option<Arc<QueueTable>> {
        Some(self.known(topic, group)?.offsets())
    }

    /// A group's cursor in a topic, if it is there.
    pub(crate) fn known(&self, topic: &str, group: &str) -> Option<&Arc<OffsetCursor>> {
        self.cursors.get(topic)?.get(group)
    }

    /// A group's cursor in a topic, made if it is not there.
    pub(crate) fn cursor(&mut self, topic: &str, group: &str) -> Arc<OffsetCursor> {
        if let Some(known) = self.known(topic, group) {
            return known.clone();
        }
        // The names are there once, however many pairs they are part of.
        let topic = self.cursors.get_key_value(topic).map_or_else(|| topic.into(), |(topic, _)| topic.clone());
        let group = self.topics_by_group.get_key_value(group).map_or_else(|| group.into(), |(group, _)| group.clone());
        let (state, unkept, resets) = (Mutex::default(), self.unkept.clone(), self.resets.clone());
        let made = Arc::new(OffsetCursor { topic: topic.clone(), group: group.clone(), state, unkept, resets });
        self.topics_by_group.entry(group.clone()).or_default().insert(topic.clone());
        self.cursors.entry(topic).or_default().insert(group, made.clone());
        self.count += 1;
        made
    }

    /// Whether offsets of a group in these topics can be kept.
    pub(crate) fn has_room<'a>(&self, topics: impl IntoIterator<Item = &'a str>, group: &str) -> bool {
        let new = topics.into_iter().filter(|topic| self.known(topic, group).is_none()).count();
        new == 0 || self.count + new <= OFFSET_PAIRS_MAX
    }

    /// How many resets consumers have not heard of: looked at with every fetch, without a look at the table.
    pub(crate) const fn resets(&self) -> &Arc<AtomicUsize> {
        &self.resets
    }

    /// Replaces a group's offsets in a topic, which the log has; by none if the table is empty.
    pub(crate) fn replace(&mut self, topic: &str, group: &str, offsets: QueueTable) {
        if !offsets.is_empty() {
            self.cursor(topic, group).replace(offsets);
            return;
        }
        if let Some(groups) = self.cursors.get_mut(topic)
            && let Some(forgotten) = groups.remove(group)
        {
            forgotten.replace(offsets);
            self.count -= 1;
            if groups.is_empty() {
                self.cursors.remove(topic);
            }
        }
        if let Some(topics) = self.topics_by_group.get_mut(group) {
            topics.remove(topic);
            if topics.is_empty() {
                self.topics_by_group.remove(group);
            }
        }
    }

    /// Takes in a change of offsets that the log of a slave's master tells of.
    pub(crate) fn follow(&mut self, change: StateChange) {
        let StateChange::Offsets { of, replaces, offsets } = change else { return };
        match of.split_once('@') {
            Some((topic, group)) if replaces => self.replace(topic, group, offsets),
            Some((topic, group)) => _ = self.cursor(topic, group).follow(offsets, false),
            None => {}
        }
    }

    /// Has a group's offsets in a topic as the tables of a slave's master say; none if the table is empty.
    pub(crate) fn follow_table(&mut self, topic: &str, group: &str, offsets: QueueTable) {
        let is_there = !offsets.is_empty() || self.known(topic, group).is_some();
        if is_there && !self.cursor(topic, group).follow(offsets, true) {
            self.replace(topic, group, QueueTable::new());
        }
    }

    /// How many rounds have ended: what is put before this is called is taken by that one at the latest.
    pub(crate) fn round(&self) -> u64 {
        self.unkept.lock().round
    }

    /// Ends a round, of which the number is given: all that was put before is taken now.
    pub(crate) fn end_round(&self) -> u64 {
        let mut unkept = self.unkept.lock();
        unkept.round += 1;
        unkept.round - 1
    }

    /// Takes what is not in the log yet, as changes.
    pub(crate) fn take_unkept(&self) -> Vec<StateChange> {
        let mut cursors = std::mem::take(&mut self.unkept.lock().cursors);
        cursors.sort_unstable_by(|one, other| (&one.topic, &one.group).cmp(&(&other.topic, &other.group)));
        cursors.iter().filter_map(|cursor| cursor.take_unkept()).collect()
    }

    /// They could not be put into the log. Gives those that are not about offsets.
    pub(crate) fn put_back(&self, changes: Vec<StateChange>) -> Vec<StateChange> {
        let mut others = Vec::new();
        for change in changes {
            let StateChange::Offsets { of, offsets, .. } = change else {
                others.push(change);
                continue;
            };
            let Some((topic, group)) = of.split_once('@') else { continue };
            if let Some(cursor) = self.known(topic, group) {
                cursor.put_back(offsets.into_keys());
            }
        }
        others
    }

    /// Every group's cursor in a topic, in no order.
    pub(crate) fn cursors_of(&self, topic: &str) -> Vec<(Arc<str>, Arc<OffsetCursor>)> {
        let groups = self.cursors.get(topic).into_iter().flatten();
        groups.map(|(group, cursor)| (group.clone(), cursor.clone())).collect()
    }

    /// Topics a group has offsets in, sorted.
    pub(crate) fn topics_of(&self, group: &str) -> Vec<String> {
        self.topics_by_group.get(group).into_iter().flatten().map(|topic| topic.to_string()).collect()
    }

    /// Groups that have offsets in a topic, sorted.
    pub(crate) fn groups_in(&self, topic: &str) -> Vec<String> {
        let groups = self.cursors.get(topic).into_iter().flat_map(HashMap::keys);
        let mut groups: Vec<_> = groups.map(|group| group.to_string()).collect();
        groups.sort_unstable();
        groups
    }

    /// Topics that a group has offsets in.
    pub(crate) fn topics(&self) -> Vec<Arc<str>> {
        self.cursors.keys().cloned().collect()
    }

    /// Every group's offsets in a topic, shared.
    pub(crate) fn groups_of(&self, topic: &str) -> Vec<(Arc<str>, Arc<QueueTable>)> {
        let groups = self.cursors.get(topic).into_iter().flatten();
        groups.map(|(group, cursor)| (group.clone(), cursor.offsets())).collect()
    }

    /// Every group's offsets in every topic.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str, Arc<QueueTable>)> {
        self.cursors.iter().flat_map(|(topic, groups)| {
            groups.iter().map(move |(group, cursor)| (&**topic, &**group, cursor.offsets()))
        })
    }

    /// The same as the document has it.
    pub(crate) fn table(&self) -> BTreeMap<String, Arc<QueueTable>> {
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
        assert!(committed.cursor("b", "g").put(1, 5));
        assert!(committed.cursor("a", "g").put(0, 7));
        assert!(committed.cursor("b", "g").put(1, 6));
        assert!(committed.cursor("b", "g").put(0, 1));
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 7)]), change("b@g", &[(0, 1), (1, 6)])]);
        assert!(committed.cursor("b", "g").put(1, 6));
        assert_eq!(committed.take_unkept(), [], "nothing new");
        assert_eq!((committed.end_round(), committed.end_round(), committed.round()), (0, 1, 2));
    }

    #[test]
    fn what_could_not_be_kept_is_taken_again_with_what_came_since() {
        let mut committed = Committed::default();
        assert!(committed.cursor("a", "g").put(0, 1));
        assert!(committed.cursor("a", "g").put(1, 1));
        let taken = committed.take_unkept();
        assert!(committed.cursor("a", "g").put(0, 2));
        committed.put_back(taken);
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 2), (1, 1)])]);
        assert!(committed.cursor("a", "g").put(0, 3));
        let taken = committed.take_unkept();
        committed.replace("a", "g", QueueTable::new());
        committed.put_back(taken);
        assert_eq!(committed.take_unkept(), [], "it is forgotten");
    }

    #[test]
    fn what_a_master_tells_leaves_what_was_committed_beyond_and_is_not_kept_yet() {
        let mut committed = Committed::default();
        let offsets = |of: &Committed| QueueTable::clone(&of.get("a", "g").expect("there"));
        for queue in 0..3 {
            assert!(committed.cursor("a", "g").put(queue, 5));
        }
        committed.follow(change("a@g", &[(0, 4), (1, 6), (7, 1)]));
        assert_eq!(offsets(&committed), [(0, 5), (1, 6), (2, 5), (7, 1)].into());
        committed.follow_table("a", "g", [(0, 3), (2, 5)].into());
        assert_eq!(offsets(&committed), [(0, 5), (2, 5)].into());
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 5)])]);
        let cursor = committed.cursor("a", "g");
        assert!(cursor.put(2, 9));
        committed.follow_table("a", "g", QueueTable::new());
        assert_eq!(offsets(&committed), [(2, 9)].into(), "the tables were made before");
        committed.take_unkept();
        committed.follow_table("a", "g", QueueTable::new());
        assert!(committed.get("a", "g").is_none() && !cursor.put(2, 9));
    }

    #[test]
    fn topics_and_groups_know_each_other_for_as_long_as_there_are_offsets() {
        let mut committed = Committed::of([("a@g".to_owned(), QueueTable::from([(0, 4)]))].into());
        assert!(committed.cursor("b", "g").put(0, 1));
        assert!(committed.cursor("a", "h").put(0, 1));
        assert_eq!(
            (committed.topics_of("g"), committed.groups_in("a")),
            (vec!["a".into(), "b".into()], vec!["g".into(), "h".into()])
        );
        committed.replace("a", "g", QueueTable::new());
        assert_eq!((committed.topics_of("g"), committed.groups_in("a")), (vec!["b".into()], vec!["h".into()]));
        assert_eq!(committed.table().into_keys().collect::<Vec<_>>(), ["a@h", "b@g"]);
    }

    #[test]
    fn nothing_comes_into_a_cursor_that_was_forgotten() {
        let mut committed = Committed::default();
        let cursor = committed.cursor("a", "g");
        assert!(cursor.put(0, 1));
        committed.replace("a", "g", QueueTable::new());
        assert!(!cursor.put(0, 2));
        assert_eq!((committed.take_unkept(), committed.get("a", "g")), (vec![], None));
        assert!(committed.cursor("a", "g").put(0, 3), "the next one is another");
        assert_eq!(committed.take_unkept(), [change("a@g", &[(0, 3)])]);
    }
}
