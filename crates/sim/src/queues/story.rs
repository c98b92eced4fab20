//! Stories of message queues, as plain values.

use std::fmt;

use crate::chance::Chance;
use crate::node::Work;
use crate::replica::{ReplicaAction, ReplicaSetup};
use crate::story::Setup;

/// Where messages are published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A durable queue.
    Plain,
    /// One whose rejected messages become dead letters.
    Work,
    /// Both, and one that goes with the process.
    All,
}

/// What a consumer does with what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Acknowledges one message.
    Ack,
    /// And all that it had before.
    AckAll,
    /// Gives one back.
    Requeue,
    /// Rejects one for good.
    Reject,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// A client publishes.
    Publish {
        /// Which.
        client: usize,
        /// To where.
        target: Target,
        /// How many messages, in one read.
        count: u64,
        /// Whether they are persistent.
        is_persistent: bool,
        /// Bytes of a body.
        size: usize,
    },
    /// A client settles some of what it has.
    Settle {
        /// Which.
        client: usize,
        /// How.
        how: Settlement,
        /// Which of its messages.
        dice: u64,
    },
    /// A client asks for one message of the durable queue.
    Get {
        /// Which.
        client: usize,
    },
    /// A client's connection is lost, and made anew.
    Disconnect {
        /// Which.
        client: usize,
    },
    /// A thread of the node does its work.
    Work(Work),
    /// All of it that is due is done.
    WorkDue,
    /// Time passes.
    Pass {
        /// How much.
        milliseconds: u64,
    },
    /// The node is stopped in good order and starts again.
    Restart,
    /// It is killed, after so many changes of its disk that its threads make, and starts again.
    Kill {
        /// How many.
        changes: u64,
    },
    /// Its power fails, and it starts again.
    CutPower {
        /// Which part of what was not synced is there.
        dice: u64,
        /// How much of it, of 100.
        percent: u64,
    },
    /// The node is gone for good, and its slave becomes the master, if it has what that asks for.
    Promote,
    /// Something happens to the slave.
    Replica(ReplicaAction),
}

/// A node with message queues, and what happens to it.
#[derive(Clone, Debug)]
pub struct QueueStory {
    /// How it is set up.
    pub setup: Setup,
    /// Whether the slave follows before the first client makes a queue: then the log tells of it, and else the master's tables do.
    pub is_followed_first: bool,
    /// What happens.
    pub steps: Vec<QueueAction>,
}

impl QueueStory {
    /// The story of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5175_6575_6573);
        let mut setup = Setup::new(&mut chance);
        setup.has_message_queues = true;
        setup.capacity = 64 << 20;
        let replica =
            ReplicaSetup { is_waited_for: chance.percent(60), piece_size: chance.pick(&[usize::MAX, 5000, 700]) };
        setup.replica = chance.percent(70).then_some(replica);
        let crashes = chance.pick(&[0, 3, 6, 12]);
        let count = 40 + chance.below(120);
        let mut steps: Vec<_> =
            (0..count).map(|_| QueueAction::of(&mut chance, crashes, setup.replica.is_some())).collect();
        // What became of everything is seen at the end, there as here.
        steps.extend(chance.percent(50).then_some(QueueAction::Promote));
        Self { setup, is_followed_first: chance.percent(50), steps }
    }
}

impl QueueAction {
    fn of(chance: &mut Chance, crashes: u64, has_replica: bool) -> Self {
        if chance.percent(crashes) {
            return Self::crash(chance, has_replica);
        }
        if has_replica && chance.percent(5) {
            return Self::Replica(ReplicaAction::any(chance));
        }
        match chance.below(100) {
            0..28 => Self::Publish {
                client: chance.pick(&super::world::PUBLISHERS),
                target: chance.pick(&[Target::Plain, Target::Work, Target::All]),
                count: chance.pick(&[1, 1, 3, 10]),
                is_persistent: chance.percent(75),
                size: chance.pick(&[0, 50, 400, 3000]),
            },
            28..56 => Self::Settle {
                client: chance.below(super::world::CLIENTS as u64) as usize,
                how: chance.pick(&[
                    Settlement::Ack,
                    Settlement::AckAll,
                    Settlement::AckAll,
                    Settlement::Requeue,
                    Settlement::Reject,
                ]),
                dice: chance.number(),
            },
            56..62 => Self::Get { client: chance.below(super::world::CLIENTS as u64) as usize },
            62..65 => Self::Disconnect { client: chance.below(super::world::CLIENTS as u64) as usize },
            65..80 => Self::Work(chance.pick(&Work::EVERYDAY)),
            80..86 => Self::WorkDue,
            _ => Self::Pass { milliseconds: chance.pick(&[1, 100, 1000, 5000, 10_000]) },
        }
    }

    fn crash(chance: &mut Chance, has_replica: bool) -> Self {
        match chance.below(10) {
            0..2 => Self::Restart,
            2..5 => Self::Kill { changes: chance.below(14) },
            5..7 if has_replica => Self::Promote,
            _ => Self::CutPower { dice: chance.number(), percent: chance.pick(&[0, 5, 50, 95, 100]) },
        }
    }
}

impl fmt::Display for QueueStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}, followed first: {}", self.setup, self.is_followed_first)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{number:3} {step:?}"))
    }
}
