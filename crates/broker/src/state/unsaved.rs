//! Changes since the last snapshot, one a subject.

use std::collections::BTreeMap;

use base::LogOffset;
use format::lease::LeaseState;
use format::model::ModelSubject;
use format::state::StateChange;

/// What a change is about: a later one about the same takes the place of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Topic(String),
    Group(String),
    Offsets(String),
    Delay(u32),
    Imported(String),
    RequestMode(String, String),
    LeasesRemoved(String),
    /// Behind their removal.
    Leases(String, u32),
    Model(ModelSubject),
}

fn subject_of(change: &StateChange) -> Subject {
    match change {
        StateChange::Topic { settings, .. } => Subject::Topic(settings.topic_name.clone()),
        StateChange::TopicRemoved { name, .. } => Subject::Topic(name.clone()),
        StateChange::Group { settings, .. } => Subject::Group(settings.group_name.clone()),
        StateChange::GroupRemoved { name, .. } => Subject::Group(name.clone()),
        StateChange::Offsets { of, .. } => Subject::Offsets(of.clone()),
        StateChange::Delay { level, .. } => Subject::Delay(*level),
        StateChange::Imported { document, .. } => Subject::Imported(document.clone()),
        StateChange::Leases { of, queue, .. } => Subject::Leases(of.clone(), *queue),
        StateChange::LeasesRemoved { of } => Subject::LeasesRemoved(of.clone()),
        StateChange::RequestMode { settings } => {
            Subject::RequestMode(settings.topic.clone(), settings.consumer_group.clone())
        }
        StateChange::RequestModeRemoved { topic, group } => Subject::RequestMode(topic.clone(), group.clone()),
        StateChange::Model(change) => Subject::Model(change.subject()),
    }
}

/// What has become of a subject.
#[derive(Debug)]
enum Became {
    Change(StateChange),
    /// Leases: changes of many settlements are laid over each other without a look at all of them.
    Lane {
        of: String,
        queue: u32,
        replaces: bool,
        state: Box<LeaseState>,
    },
}

impl From<StateChange> for Became {
    fn from(change: StateChange) -> Self {
        match change {
            StateChange::Leases { of, queue, replaces, change } => {
                let mut state = Box::<LeaseState>::default();
                state.apply(&change);
                Self::Lane { of, queue, replaces, state }
            }
            change => Self::Change(change),
        }
    }
}

impl Became {
    fn change(&self) -> StateChange {
        match self {
            Self::Change(change) => change.clone(),
            Self::Lane { of, queue, replaces, state } => {
                StateChange::Leases { of: of.clone(), queue: *queue, replaces: *replaces, change: state.change() }
            }
        }
    }
}

/// Changes that were taken to be saved.
#[derive(Debug, Default)]
pub(super) struct Taken {
    changes: BTreeMap<Subject, Became>,
    size: u64,
}

impl Taken {
    /// In an order in which they can be made.
    pub(super) fn changes(&self) -> Vec<StateChange> {
        self.changes.values().map(Became::change).collect()
    }
}

/// Changes since the last snapshot.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    changes: BTreeMap<Subject, Became>,
    /// Where the last of them ends in the log; of a slave, up to where the log was looked at for changes.
    pub(super) end: LogOffset,
    /// Bytes of them at most,
    pub(super) size: u64,
    /// and of what is in the snapshot.
    pub(super) saved_size: u64,
}

impl Unsaved {
    /// None yet, but so many bytes; see its members.
    pub(super) fn of(size: u64, saved_size: u64, end: LogOffset) -> Self {
        Self { changes: BTreeMap::new(), end, size, saved_size }
    }

    pub(super) fn add(&mut self, change: StateChange) {
        if let StateChange::LeasesRemoved { of } = &change {
            self.forget_leases(of);
        }
        let subject = subject_of(&change);
        match (self.changes.get_mut(&subject), change) {
            (
                Some(Became::Change(StateChange::Offsets { offsets: known, .. })),
                StateChange::Offsets { offsets, replaces: false, .. },
            ) => {
                known.extend(offsets);
            }
            (Some(Became::Lane { state, .. }), StateChange::Leases { change, replaces: false, .. }) => {
                state.apply(&change);
            }
            (_, change) => drop(self.changes.insert(subject, change.into())),
        }
    }

    pub(super) fn take(&mut self) -> Taken {
        Taken { changes: std::mem::take(&mut self.changes), size: std::mem::take(&mut self.size) }
    }

    /// Puts changes back that could not be saved: later ones about the same stand.
    pub(super) fn put_back(&mut self, taken: Taken) {
        let later = std::mem::replace(&mut self.changes, taken.changes);
        later.into_values().for_each(|became| self.add(became.change()));
        self.size += taken.size;
    }

    /// Bytes of the next snapshot at most.
    pub(super) const fn snapshot_size_max(&self) -> u64 {
        self.saved_size + self.size
    }

    fn forget_leases(&mut self, of: &str) {
        let range = Subject::Leases(of.to_owned(), 0)..=Subject::Leases(of.to_owned(), u32::MAX);
        self.changes.extract_if(range, |_, _| true).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use base::QueueOffset;
    use format::lease::LeaseChange;
    use format::state_tables::StateTables;

    use super::*;

    fn leases(queue: u32, floor: u64, settled: Option<(u64, u64)>, replaces: bool) -> StateChange {
        let none = std::iter::empty();
        let change = LeaseChange::of(QueueOffset(floor), settled.into_iter(), none, QueueOffset(floor));
        StateChange::Leases { of: "orders@billing".to_owned(), queue, replaces, change }
    }

    fn offsets(queue: u32, offset: i64, replaces: bool) -> StateChange {
        StateChange::Offsets { of: "orders@billing".to_owned(), replaces, offsets: [(queue, offset)].into() }
    }

    /// Whatever was saved in between, and put back, what is saved leads to what the changes lead to one by one.
    #[test]
    fn what_is_saved_leads_to_what_all_changes_led_to() {
        let changes = [
            leases(0, 5, Some((7, 9)), false),
            offsets(0, 3, false),
            leases(1, 2, None, false),
            leases(0, 6, Some((10, 11)), false),
            StateChange::LeasesRemoved { of: "orders@billing".to_owned() },
            leases(0, 1, None, false),
            offsets(1, 4, false),
            leases(0, 0, Some((3, 4)), true),
            offsets(2, 4, true),
            leases(0, 0, Some((5, 6)), false),
        ];
        for saved_at in 0..changes.len() {
            for is_put_back in [false, true] {
                let (mut unsaved, mut all, mut saved) =
                    (Unsaved::default(), StateTables::default(), StateTables::default());
                for (number, change) in changes.iter().enumerate() {
                    if number == saved_at && !is_put_back {
                        unsaved.take().changes().into_iter().for_each(|change| saved.apply(change));
                    }
                    let taken = (number == saved_at && is_put_back).then(|| unsaved.take());
                    unsaved.add(change.clone());
                    all.apply(change.clone());
                    taken.into_iter().for_each(|taken| unsaved.put_back(taken));
                }
                unsaved.take().changes().into_iter().for_each(|change| saved.apply(change));
                assert_eq!(saved, all, "saved before change {saved_at}, put back: {is_put_back}");
            }
        }
    }
}
