//! What consumers do that pop, beside what else happens: stories in which nobody pops are as they are.

use crate::chance::Chance;
use crate::node::Work;
use crate::roster::{FIRST_POPPER, POPPERS, QUEUES, TOPICS};
use crate::story::{Action, Step, Story};

/// How those who pop are set up, by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopSetup {
    /// How often a message is given again.
    pub tries: [i32; 2],
    /// How many pops are in order, of 100.
    pub ordered: [u64; 2],
    /// How many want one tag alone, of 100.
    pub tagged: u64,
}

/// What one of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopAction {
    /// It joins its group.
    Join {
        /// Who.
        popper: usize,
    },
    /// It pops.
    Pop {
        /// Who.
        popper: usize,
        /// From where.
        topic: &'static str,
        /// From which queue; `None` for any.
        queue: Option<u32>,
        /// At most so many.
        count: i32,
        /// For how long.
        invisible_ms: u64,
        /// How long it may wait.
        wait_ms: u64,
        /// In order, by this name of its own for the attempt; 0 for none.
        attempt: Option<usize>,
        /// The one tag it wants.
        tag: Option<&'static str>,
    },
    /// It asks whether there is something.
    Notice {
        /// Who.
        popper: usize,
        /// From where.
        topic: &'static str,
        /// From which queue; `None` for any.
        queue: Option<u32>,
        /// How long it may wait.
        wait_ms: u64,
    },
    /// It acknowledges a message.
    Ack {
        /// Who.
        popper: usize,
        /// Which of those its group was given, the last first.
        back: usize,
        /// How its receipt is.
        receipt: ReceiptKind,
    },
    /// It acknowledges all that came with a message.
    AckAll {
        /// Who.
        popper: usize,
        /// See `Ack`.
        back: usize,
    },
    /// It wants a message for another time.
    Change {
        /// Who.
        popper: usize,
        /// See `Ack`.
        back: usize,
        /// How its receipt is.
        receipt: ReceiptKind,
        /// For how long.
        invisible_ms: u64,
    },
    /// It commits an offset, as who pulls does.
    Commit {
        /// Who.
        popper: usize,
        /// Of which queue.
        topic: &'static str,
        /// See `topic`.
        queue: u32,
        /// Which.
        offset: i64,
    },
    /// It asks how far its group is.
    ReadCommitted {
        /// Who.
        popper: usize,
        /// In which queue.
        topic: &'static str,
        /// See `topic`.
        queue: u32,
    },
    /// An administrator resets its group.
    Reset {
        /// Whose.
        popper: usize,
        /// In which topic.
        topic: &'static str,
        /// To where.
        offset: i64,
    },
}

/// What a receipt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// As the group was given it.
    Own,
    /// Another group's.
    Foreign,
    /// One that nobody was given.
    Forged,
}

impl ReceiptKind {
    fn of(chance: &mut Chance) -> Self {
        match chance.below(20) {
            0 => Self::Foreign,
            1 => Self::Forged,
            _ => Self::Own,
        }
    }
}

impl PopSetup {
    /// That of some stories.
    fn of(chance: &mut Chance) -> Option<Self> {
        let setup = Self {
            tries: [chance.pick(&[16, 0, 1, 3]), chance.pick(&[16, 2, 5])],
            ordered: [chance.pick(&[0, 0, 100, 50]), chance.pick(&[100, 100, 0])],
            tagged: chance.pick(&[0, 0, 0, 15]),
        };
        chance.percent(60).then_some(setup)
    }
}

impl PopAction {
    fn of(chance: &mut Chance, setup: &PopSetup) -> Self {
        let popper = chance.below(POPPERS.len() as u64) as usize;
        let topic = chance.pick(&TOPICS);
        let queue = chance.below(u64::from(QUEUES)) as u32;
        let back = chance.pick(&[0, 0, 1, 2, 3, 5, 8, 13, 30]);
        let offset = chance.below(20) as i64;
        match chance.below(100) {
            0..46 => Self::pop(popper, topic, queue, chance, setup),
            46..66 => Self::Ack { popper, back, receipt: ReceiptKind::of(chance) },
            66..76 => Self::AckAll { popper, back },
            76..84 => Self::Change {
                popper,
                back,
                receipt: ReceiptKind::of(chance),
                invisible_ms: chance.pick(&[0, 200, 1000, 3000, 8000]),
            },
            84..90 => Self::Notice {
                popper,
                topic,
                queue: chance.percent(50).then_some(queue),
                wait_ms: chance.pick(&[0, 3000, 20_000]),
            },
            90..91 => Self::Join { popper },
            91..93 => Self::Commit { popper, topic, queue, offset },
            93..98 => Self::ReadCommitted { popper, topic, queue },
            _ => Self::Reset { popper, topic: chance.pick(&TOPICS[..2]), offset },
        }
    }

    fn pop(popper: usize, topic: &'static str, queue: u32, chance: &mut Chance, setup: &PopSetup) -> Self {
        let is_ordered = chance.percent(setup.ordered[POPPERS[popper]]);
        let attempt = chance.pick(&[0, 1, 2, 3]);
        let tag = chance.pick(&["even", "odd"]);
        Self::Pop {
            popper,
            topic,
            queue: chance.percent(50).then_some(queue),
            count: chance.pick(&[1, 1, 2, 5, 32]),
            invisible_ms: chance.pick(&[0, 100, 500, 1000, 1000, 3000, 10_000]),
            wait_ms: chance.pick(&[0, 0, 3000, 20_000]),
            attempt: is_ordered.then_some(attempt),
            tag: chance.percent(setup.tagged).then_some(tag),
        }
    }
}

/// What happens beside a step of a story.
fn befall(chance: &mut Chance, setup: &PopSetup) -> Action {
    let connection = FIRST_POPPER + chance.below(POPPERS.len() as u64) as usize;
    match chance.below(100) {
        0..76 => Action::Pops(PopAction::of(chance, setup)),
        76..84 => Action::Work(Work::EndLeases),
        84..94 => Action::Pass { milliseconds: chance.pick(&[1, 50, 100, 500, 1000, 2000]) },
        94..96 => Action::Disconnect { connection },
        96..97 => Action::Stall { connection },
        97..98 => Action::Arrive { connection, size: chance.pick(&[50, 100_000]) },
        _ => Action::Work(Work::Own(broker::Work::KeepChanges)),
    }
}

impl Story {
    /// The same with consumers that pop, more often than not.
    pub(crate) fn with_poppers(mut self, chance: &mut Chance) -> Self {
        self.setup.pops = PopSetup::of(chance);
        let Some(setup) = self.setup.pops else { return self };
        // Which files of queues stay open says whether a pop waits for the disk, and is not the same each time where they are few.
        self.setup.open_queue_files = 256;
        let most = chance.pick(&[1, 2, 4]);
        for mut step in std::mem::take(&mut self.steps) {
            for _ in 0..chance.below(most + 1) {
                let action = befall(chance, &setup);
                self.steps.push(Step::with(action, chance));
            }
            if let Action::Kill { during, .. } | Action::CutPower { during, .. } = &mut step.action
                && chance.percent(50)
            {
                *during = Some(Box::new(Action::Pops(PopAction::of(chance, &setup))));
            }
            self.steps.push(step);
        }
        self
    }
}
