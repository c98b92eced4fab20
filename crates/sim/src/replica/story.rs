//! What happens to a slave, beside what happens to its master: stories without one are as they are.

use crate::chance::Chance;
use crate::story::{Action, Step, Story};

/// How a slave is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSetup {
    /// Whether producers wait for it.
    pub is_waited_for: bool,
    /// Bytes that arrive at once at the most.
    pub piece_size: usize,
}

/// What happens to a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    /// The network between it and its master parts, or is whole again.
    Part,
    /// It does nothing for a while, or goes on.
    Rest,
    /// Its process is killed after so many changes of its disk, and starts again.
    Kill {
        /// How many.
        changes: u64,
    },
    /// Its power fails at some moment since it was last told, and it starts again.
    CutPower {
        /// Which part of what was not synced is there.
        dice: u64,
        /// How much of it, of 100.
        percent: u64,
    },
    /// It stops in good order and starts again.
    Restart,
}

impl ReplicaSetup {
    /// That of some stories.
    fn of(chance: &mut Chance) -> Option<Self> {
        let setup = Self { is_waited_for: chance.percent(50), piece_size: chance.pick(&[usize::MAX, 5000, 300]) };
        chance.percent(50).then_some(setup)
    }
}

impl ReplicaAction {
    /// What befalls the slave beside a step.
    fn of(chance: &mut Chance) -> Option<Self> {
        chance.percent(6).then(|| Self::any(chance))
    }

    /// Any of it.
    pub(crate) fn any(chance: &mut Chance) -> Self {
        match chance.below(10) {
            0..4 => Self::Part,
            4..6 => Self::Rest,
            6..8 => Self::Kill { changes: chance.below(30) },
            8..9 => Self::CutPower { dice: chance.number(), percent: chance.pick(&[0, 50, 100]) },
            _ => Self::Restart,
        }
    }
}

impl Story {
    /// The same with a slave beside the node, now and then.
    pub(crate) fn with_replica(mut self, chance: &mut Chance) -> Self {
        self.setup.replica = ReplicaSetup::of(chance);
        if self.setup.replica.is_some() {
            let befalls = |step: Step| {
                let befallen =
                    ReplicaAction::of(chance).map(|action| Step { action: Action::Replica(action), ..step.clone() });
                befallen.into_iter().chain([step])
            };
            self.steps = self.steps.into_iter().flat_map(befalls).collect();
        }
        self
    }
}
