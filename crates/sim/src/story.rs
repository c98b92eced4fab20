//! Stories: what happens to a node, as plain values. A seed makes one; what is left of one after some of it was taken away is one too.

mod text;

use crate::chance::Chance;
use crate::fault::Contents;
use crate::node::Work;
use crate::pops::{PopAction, PopSetup};
use crate::replica::{ReplicaAction, ReplicaSetup};
use crate::roster::{ADMIN_TOPIC, AUDITOR, BRIEF_TOPIC, EVERYDAY_CONNECTIONS, MEMBERS, PRODUCERS, QUEUES, TOPICS};

/// How a node is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Entries of a queue's file.
    pub queue_file_entries: u64,
    /// Entries that may gather in memory.
    pub gathered_entries: u64,
    /// Queue files kept open.
    pub open_queue_files: usize,
    /// Entries of a key-index file.
    pub key_index_entries: u32,
    /// Bytes of the log's end kept in memory.
    pub recent_size: usize,
    /// Whether records have checksums over all of them.
    pub record_checksums: bool,
    /// Whether answers wait for the sync.
    pub sync_flush: bool,
    /// Bytes of log that are kept.
    pub retention_size: Option<u64>,
    /// Bytes of the disk.
    pub capacity: u64,
    /// Delay of each level.
    pub delays_ms: [u64; 3],
    /// Decides what is written at once.
    pub rhythm: u64,
    /// The slave, if there is one.
    pub replica: Option<ReplicaSetup>,
    /// Who pops, if anybody does.
    pub pops: Option<PopSetup>,
    /// Whether there are virtual hosts, with a user.
    pub has_message_queues: bool,
}

/// What is done about what is waiting after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Nothing,
    /// Sessions that were woken go on.
    Wakes,
    /// So do their jobs.
    Everything,
}

/// A step of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What happens.
    pub action: Action,
    /// What is asked stays on its way.
    pub is_held: bool,
    /// Bytes in which it arrives at the most, one piece after the other.
    pub piece_size: usize,
    /// What else happens then.
    pub after: After,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A producer sends.
    Send {
        /// Which.
        producer: usize,
        /// To which topic.
        topic: &'static str,
        /// To which queue; `None` leaves it to the broker.
        queue: Option<u32>,
        /// How many messages.
        count: u64,
        /// Whether they are one batch.
        is_batch: bool,
        /// Delay level.
        level: usize,
        /// Whether answers wait for the sync.
        waits: bool,
        /// Whether there are answers.
        is_one_way: bool,
        /// Bytes of a body.
        size: usize,
    },
    /// The reader pulls.
    Pull {
        /// From which queue.
        topic: &'static str,
        /// See `topic`.
        queue: u32,
        /// At most so many.
        count: i32,
        /// How long it may wait.
        wait_ms: u64,
        /// Whether it commits where it is.
        commits: bool,
    },
    /// The reader commits.
    Commit {
        /// Of which queue.
        topic: &'static str,
        /// See `topic`.
        queue: u32,
        /// Whether it wants no answer.
        is_one_way: bool,
    },
    /// The reader asks what is committed.
    ReadCommitted {
        /// Of which queue.
        topic: &'static str,
        /// See `topic`.
        queue: u32,
    },
    /// A member takes in what it was told, and asks for more.
    Turn {
        /// Which.
        member: usize,
    },
    /// A member leaves its group.
    Leave {
        /// Which.
        member: usize,
    },
    /// An administrator resets the reader's group.
    Reset {
        /// In which topic.
        topic: &'static str,
        /// To where.
        offset: i64,
    },
    /// An administrator makes or changes a topic.
    PutTopic {
        /// Its permission.
        perm: u32,
    },
    /// An administrator removes a topic.
    RemoveTopic {
        /// Which.
        topic: &'static str,
    },
    /// An administrator makes or changes a group.
    PutGroup {
        /// Its tries.
        tries: i32,
    },
    /// An administrator removes a group.
    RemoveGroup,
    /// An administrator looks at topic and group.
    ReadSettings,
    /// Bytes that are on their way arrive.
    Arrive {
        /// On which connection.
        connection: usize,
        /// How many.
        size: usize,
    },
    /// A connection breaks, and its client makes a new one.
    Disconnect {
        /// Which.
        connection: usize,
    },
    /// A client takes no answers for now, or takes them again.
    Stall {
        /// Which.
        connection: usize,
    },
    /// A thread does its work.
    Work(Work),
    /// The threads do what is due by their schedules.
    WorkDue,
    /// One of the jobs that wait is done.
    Job {
        /// Which.
        number: usize,
    },
    /// Time passes.
    Pass {
        /// How much.
        milliseconds: u64,
    },
    /// Somebody sets the clock.
    SetClock {
        /// By how much.
        by_ms: i64,
    },
    /// The disk has little left.
    FillDisk {
        /// So many bytes.
        left: u64,
    },
    /// There is room on the disk.
    FreeDisk,
    /// A sector of the disk cannot be read any more.
    LoseSector {
        /// Of which.
        contents: Contents,
        /// Which.
        pick: u64,
    },
    /// All sectors can be read again.
    MendDisk,
    /// The next write to the log fails.
    FailWrite,
    /// The next sync of the log fails.
    FailSync,
    /// Something happens to the slave.
    Replica(ReplicaAction),
    /// A consumer that pops does something.
    Pops(PopAction),
    /// The node stops in good order, and starts again.
    Restart,
    /// The process is killed, and the node starts again.
    Kill {
        /// In the middle of this.
        during: Option<Box<Action>>,
        /// After so many changes of the disk.
        changes: u64,
    },
    /// The next start comes to its end before it is done, and is begun anew.
    EndStart {
        /// The process is killed after so many changes of the disk.
        changes: u64,
        /// Or the power fails at some moment until then; see `CutPower`.
        power: Option<u64>,
    },
    /// The power fails, and the node starts again.
    CutPower {
        /// In the middle of this.
        during: Option<Box<Action>>,
        /// Which part of what was not synced is there; and where it was cut.
        dice: u64,
        /// How much of it is there, of 100.
        percent: u64,
    },
}

/// A setup, and what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// How the node is set up.
    pub setup: Setup,
    /// What happens to it.
    pub steps: Vec<Step>,
}

/// How likely the kinds of action are in one story.
struct Mood {
    crashes: u64,
    clocks: u64,
    disks: u64,
    admin: u64,
}

impl Setup {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let segment_size = chance.pick(&[8192, 16_384, 65_536]);
        Self {
            segment_size,
            queue_file_entries: chance.pick(&[4, 30, 1000]),
            gathered_entries: chance.pick(&[8, 1 << 20]),
            open_queue_files: chance.pick(&[2, 256]),
            key_index_entries: chance.pick(&[40, 400]),
            recent_size: chance.pick(&[1, 4096, 1 << 20]),
            record_checksums: chance.percent(30),
            sync_flush: chance.percent(50),
            retention_size: chance.percent(30).then_some(3 * segment_size),
            capacity: 4 << 20,
            delays_ms: [1000, 3000, 10_000],
            rhythm: chance.pick(&[u64::MAX, u64::MAX, 0, chance.clone().number()]),
            replica: None,
            pops: None,
            has_message_queues: false,
        }
    }
}

impl Story {
    /// The story of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let setup = Setup::new(&mut chance);
        let mood = Mood {
            crashes: chance.pick(&[0, 3, 6, 12]),
            clocks: chance.pick(&[0, 0, 2, 6]),
            disks: chance.pick(&[0, 0, 2, 8]),
            admin: chance.pick(&[2, 6, 12]),
        };
        let count = 30 + chance.below(120);
        let steps = (0..count).map(|_| Step::of(&mut chance, &mood)).collect();
        Self { setup, steps }.with_replica(&mut Chance::new(!seed)).with_poppers(&mut Chance::new(seed.rotate_left(32)))
    }
}

impl Step {
    fn of(chance: &mut Chance, mood: &Mood) -> Self {
        let action = Action::of(chance, mood);
        Self::with(action, chance)
    }

    /// One with this action.
    pub(crate) fn with(action: Action, chance: &mut Chance) -> Self {
        Self {
            action,
            is_held: chance.percent(8),
            piece_size: chance.pick(&[usize::MAX, usize::MAX, 1000, 70]),
            after: chance.pick(&[
                After::Everything,
                After::Everything,
                After::Wakes,
                After::Everything,
                After::Nothing,
            ]),
        }
    }
}

impl Action {
    fn of(chance: &mut Chance, mood: &Mood) -> Self {
        if chance.percent(mood.crashes) {
            return Self::crash(chance);
        }
        if chance.percent(mood.clocks) {
            return Self::SetClock { by_ms: chance.pick(&[-3_600_000, 3_600_000, -2000, 1500]) };
        }
        if chance.percent(mood.disks) {
            return Self::trouble(chance);
        }
        if chance.percent(mood.admin) {
            return Self::administer(chance);
        }
        Self::everyday(chance)
    }

    fn trouble(chance: &mut Chance) -> Self {
        match chance.below(20) {
            0..6 => Self::FillDisk { left: chance.pick(&[0, 100, 5000, 40_000]) },
            6..11 => Self::FreeDisk,
            11..16 => {
                let contents = chance.pick(&[Contents::Records, Contents::Entries, Contents::Keys]);
                Self::LoseSector { contents, pick: chance.below(100_000) }
            }
            16..18 => Self::MendDisk,
            18..19 => Self::FailWrite,
            _ => Self::FailSync,
        }
    }

    fn everyday(chance: &mut Chance) -> Self {
        match chance.below(100) {
            0..26 => Self::send(chance),
            26..36 => Self::Pull {
                topic: chance.pick(&TOPICS),
                queue: chance.below(u64::from(QUEUES)) as u32,
                count: chance.pick(&[1, 3, 32]),
                wait_ms: chance.pick(&[0, 5000, 20_000]),
                commits: chance.percent(30),
            },
            36..40 => Self::Commit {
                topic: chance.pick(&TOPICS[..2]),
                queue: chance.below(u64::from(QUEUES)) as u32,
                is_one_way: chance.percent(30),
            },
            40..43 => {
                Self::ReadCommitted { topic: chance.pick(&TOPICS[..2]), queue: chance.below(u64::from(QUEUES)) as u32 }
            }
            43..58 => Self::Turn { member: chance.below(MEMBERS.len() as u64) as usize },
            58..59 => Self::Leave { member: chance.below(MEMBERS.len() as u64) as usize },
            59..76 => Self::Work(chance.pick(&Work::EVERYDAY)),
            76..79 => Self::WorkDue,
            79..83 => Self::Job { number: chance.below(8) as usize },
            83..93 => Self::Pass { milliseconds: chance.pick(&[1, 100, 999, 1000, 3000, 10_000]) },
            93..96 => Self::Arrive {
                connection: chance.below(EVERYDAY_CONNECTIONS as u64) as usize,
                size: chance.pick(&[1, 50, 100_000]),
            },
            96..98 => Self::Disconnect { connection: chance.below(AUDITOR as u64) as usize },
            _ => Self::Stall { connection: chance.below(AUDITOR as u64) as usize },
        }
    }

    fn send(chance: &mut Chance) -> Self {
        let is_batch = chance.percent(15);
        let topic = chance.pick(&TOPICS);
        let may_wait = !is_batch && topic != BRIEF_TOPIC;
        Self::Send {
            producer: chance.below(PRODUCERS as u64) as usize,
            topic,
            queue: chance.percent(85).then(|| chance.below(u64::from(QUEUES)) as u32),
            count: chance.pick(&[1, 1, 2, 5]),
            is_batch,
            level: if may_wait { chance.pick(&[0, 0, 0, 1, 2, 3]) } else { 0 },
            waits: chance.percent(85),
            is_one_way: chance.percent(5),
            size: chance.pick(&[0, 50, 400, 1500]),
        }
    }

    fn administer(chance: &mut Chance) -> Self {
        match chance.below(10) {
            0..2 => Self::Reset { topic: chance.pick(&TOPICS[..2]), offset: chance.below(20) as i64 },
            2..4 => Self::PutTopic { perm: chance.pick(&[2, 4, 6]) },
            4..6 => Self::RemoveTopic { topic: chance.pick(&[BRIEF_TOPIC, BRIEF_TOPIC, ADMIN_TOPIC]) },
            6..7 => Self::PutGroup { tries: chance.below(50) as i32 },
            7..8 => Self::RemoveGroup,
            _ => Self::ReadSettings,
        }
    }

    fn crash(chance: &mut Chance) -> Self {
        let during = chance.percent(60).then(|| {
            loop {
                let action = if chance.percent(30) { Self::administer(chance) } else { Self::everyday(chance) };
                if !matches!(action, Self::Disconnect { .. }) {
                    break Box::new(action);
                }
            }
        });
        match chance.below(12) {
            0..2 => Self::Restart,
            10..12 => Self::EndStart { changes: chance.below(40), power: chance.percent(30).then(|| chance.number()) },
            2..5 => Self::Kill { during, changes: chance.below(14) },
            _ => Self::CutPower { during, dice: chance.number(), percent: chance.pick(&[0, 5, 50, 95, 100]) },
        }
    }
}
