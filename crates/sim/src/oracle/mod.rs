//! The oracle: hears every request when the node takes it and every answer when the node gives it, and says what must never be.
//!
//! **Owns** what was promised and what was seen. **Always holds**: it asks for nothing that `docs/semantics.md` does not promise; what
//! a crash may take stands in `promise.rs`. Rules have names (`Rule`), by which failures are told apart.

mod documents;
mod lanes;
mod messages;
mod offsets;
mod pops;
pub mod promise;
mod pulls;
mod queues;
mod tried;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use base::Now;

use crate::connection::Reply;
use crate::node::Bounds;
use crate::request::Asked;

use promise::{COMMITS, GATHERED_COMMITS, admin_changes};

use documents::Documents;
use messages::Messages;
pub(crate) use messages::log_offset_in;
use offsets::{Offsets, reset_offsets};
use pops::{Pops, pop_group};
use queues::Queues;

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A message that was acknowledged is not there, though nothing may have taken it.
    NothingAcknowledgedIsLost,
    /// Messages of a queue are in another order than they were stored or sent in.
    QueuesKeepTheirOrder,
    /// An offset names one message today and another tomorrow.
    OffsetsNameOneMessage,
    /// A message is there more often than it was stored.
    MessagesAreStoredOnce,
    /// What was refused for good is there.
    RefusedIsNotStored,
    /// Something is there that nobody sent.
    NothingComesFromNowhere,
    /// Messages of a removed topic are there again.
    RemovedStaysRemoved,
    /// A delayed message is there too soon.
    DelayedIsNotEarly,
    /// A delayed message, or one that was given back, does not come.
    DelayedArrives,
    /// A committed offset is another than any that may be.
    CommitsHold,
    /// A topic or a group is not as an administrator was told.
    AdminChangesHold,
    /// A request has no answer.
    RequestsAreAnswered,
    /// A pull waits though there are messages for it.
    WaitingPullsAreWoken,
    /// A message is given to somebody while another has it.
    OneHasIt,
    /// What was acknowledged is given again.
    AcknowledgedIsOver,
    /// A receipt does what it must not do any more, or not what it is for.
    ReceiptsHold,
    /// A pop is told that there is nothing, and there is.
    ReadyIsGiven,
    /// A pop waits though there are messages for it.
    WaitingPopsAreWoken,
    /// A message was given more often than it may be, or than is said.
    GivesAreCounted,
    /// A pop in order is given something while somebody has messages of the queue, or not what comes first.
    OrderedPopsKeepOrder,
    /// A message was not given to a group that has popped everything.
    PopsGiveEverything,
    /// Something is among the dead letters that was not given often enough.
    DeadLettersAreEarned,
    /// A message is not found by its key.
    KeysAreFound,
    /// A topic is not known to the name server.
    TopicsHaveRoutes,
    /// A group that has read everything has not seen a message.
    GroupsConsumeEverything,
    /// Something is held, or grows, for no one.
    MemoryIsBounded,
    /// The node does not start on what it left.
    TheNodeStarts,
    /// Work that nothing keeps from being done fails.
    WorkSucceeds,
    /// What the node says is no frame, or not what was asked for.
    AnswersAreWhole,
    /// A slave's log or tables are not its master's, or a message that waited for it is not there.
    SlavesFollow,
    /// A message is said to have been with somebody before and was not, or the other way round.
    RedeliveryIsTold,
    /// The program itself gave up.
    NothingPanics,
    /// Two runs of one story differ.
    OneSeedOneTrace,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
}

impl Violation {
    pub(crate) fn of(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Whether a rule holds.
pub(crate) type Checked = Result<(), Violation>;

/// A breach of `rule` unless `holds`.
pub(crate) fn check(holds: bool, rule: Rule, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation::of(rule, what())) }
}

/// Both clocks, in ms: `lived` is never set, `wall` may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) lived: u64,
    pub(crate) wall: u64,
}

impl From<Now> for Moment {
    fn from(now: Now) -> Self {
        Self { lived: now.monotonic.0, wall: now.wall.0 }
    }
}

/// What the oracle is told of the world with each event.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) now: Moment,
    /// Where the log begins: retention has taken what lies before.
    pub(crate) log_first: u64,
    /// Where what is written ends.
    pub(crate) log_end: u64,
    /// Bytes of the log that the disk cannot read.
    pub(crate) unreadable: Vec<Range<u64>>,
    /// And those it could not read at some time.
    pub(crate) once_unreadable: Vec<Range<u64>>,
    /// Whether something on the disk could not be read at some time.
    pub(crate) was_ill: bool,
}

/// A request that the node has taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) asked: Asked,
    /// Its number among all.
    pub(crate) number: u64,
    /// The connection it came on, and which of its lives.
    pub(crate) sender: (usize, u64),
    /// What its topic was then.
    epoch: Option<u64>,
    /// When, by the clock that is never set.
    lived: u64,
    /// How far its queue went by what was known then.
    known_end: u64,
    /// What was sure of the value it asks for.
    sure: u64,
    /// What the disk could not read then,
    unreadable: Vec<Range<u64>>,
    /// and how many such places there had been.
    unreadable_before: usize,
}

impl Taken {
    /// The scene of its answer, with all that could not be read at some time since it came: what was looked for then was passed over.
    fn seen_until(&self, scene: &Scene) -> Scene {
        let since = scene.once_unreadable.iter().skip(self.unreadable_before);
        let unreadable = scene.unreadable.iter().chain(&self.unreadable).chain(since).cloned().collect();
        Scene { unreadable, ..scene.clone() }
    }
}

/// How the node stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    InOrder,
    Killed,
    PowerCut,
}

/// The oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    sync_flush: bool,
    requests: u64,
    /// The moments before the clock was set.
    clock_peaks: Vec<Moment>,
    messages: Messages,
    queues: Queues,
    offsets: Offsets,
    documents: Documents,
    pops: Pops,
}

impl Oracle {
    pub(crate) fn new(sync_flush: bool, delays_ms: &[u64], tries: Option<[i32; 2]>) -> Self {
        Self {
            sync_flush,
            requests: 0,
            clock_peaks: Vec::new(),
            messages: Messages::new(delays_ms),
            queues: Queues::default(),
            offsets: Offsets::default(),
            documents: Documents::default(),
            pops: Pops::new(tries),
        }
    }

    /// The node has taken a request.
    pub(crate) fn taken(&mut self, asked: Asked, sender: (usize, u64), scene: &Scene) -> Taken {
        self.requests += 1;
        let number = self.requests;
        let epoch = self.queues.epoch_of(asked.topic());
        let (mut known_end, mut sure) = (0, 0);
        match &asked {
            Asked::Send(sending) => self.messages.sent(sending, epoch, scene),
            Asked::SendBack { .. } => self.messages.sent_back(&asked, scene),
            Asked::Pull(pulling) => {
                known_end = self.queues.end_of(pulling.queue);
                if let Some(offset) = pulling.commit {
                    self.offsets.committed(pulling.group, pulling.queue, number, offset);
                }
            }
            Asked::Pops(asked) => self.pops.taken(asked, number, scene.now.lived, self.ends_of(asked.topic())),
            Asked::Commit { group, queue, offset, .. } if pop_group(group).is_some() => {
                self.pops.committed(group, *queue, *offset, scene.now.lived);
            }
            Asked::Reset { group, topic, offset } if pop_group(group).is_some() => {
                self.pops.resetting((group, topic), *offset, (number, scene.now.lived));
            }
            Asked::Commit { group, queue, offset, .. } => self.offsets.committed(group, *queue, number, *offset),
            Asked::Committed { group, queue } => sure = self.offsets.sure(group, *queue),
            Asked::Reset { group, topic, .. } => self.offsets.reset(group, topic, number),
            Asked::RemoveTopic(topic) => {
                self.pops.topic_removed(topic, true);
                self.queues.removal_taken(topic);
                self.documents.changes(&asked, number);
            }
            Asked::PutTopic { .. } | Asked::PutGroup { .. } | Asked::RemoveGroup(_) => {
                self.documents.changes(&asked, number)
            }
            Asked::ReadTopic(_) | Asked::ReadGroup(_) => sure = self.documents.sure(&asked),
            Asked::FindKey { .. } | Asked::Heartbeat { .. } | Asked::Members(_) | Asked::Leave { .. } => {}
        }
        let (unreadable, unreadable_before) = (scene.unreadable.clone(), scene.once_unreadable.len());
        let lived = scene.now.lived;
        Taken { asked, number, sender, epoch, lived, known_end, sure, unreadable, unreadable_before }
    }

    /// The node has answered.
    pub(crate) fn answered(&mut self, taken: &Taken, reply: &Reply, scene: &Scene) -> Checked {
        match &taken.asked {
            Asked::Send(sending) => self.send_answered(sending, taken, reply),
            Asked::SendBack { .. } => self.messages.sent_back_answered(&taken.asked, reply, self.sync_flush),
            Asked::Pull(pulling) => {
                if pulling.commit.is_some() && matches!(reply.code, 0 | 19 | 20) {
                    self.offsets.confirm(pulling.group, pulling.queue, taken.number, GATHERED_COMMITS);
                }
                if reply.code == 21 {
                    self.offsets.heard_of_reset(pulling.group, pulling.queue, taken.number);
                }
                self.pulled(pulling, taken, reply, &taken.seen_until(scene))
            }
            Asked::Pops(asked) => self.pops_answered(asked, taken, reply, &taken.seen_until(scene)),
            Asked::Committed { group, queue } if pop_group(group).is_some() => {
                self.progress_read(group, *queue, taken, reply, &taken.seen_until(scene))
            }
            Asked::Reset { group, topic, .. } if pop_group(group).is_some() && reply.code == 0 => {
                self.pops.reset((group, topic), taken.number, &reset_offsets(reply)?, self.sync_flush);
                Ok(())
            }
            Asked::Commit { group, .. } if pop_group(group).is_some() => Ok(()),
            Asked::Commit { group, queue, .. } if reply.code == 0 => {
                self.offsets.confirm(group, *queue, taken.number, COMMITS);
                Ok(())
            }
            Asked::Committed { group, queue } => self.offsets.read(group, *queue, taken.sure, reply),
            Asked::Reset { group, topic, .. } if reply.code == 0 => {
                self.offsets.reset_answered(group, topic, taken.number, reply, admin_changes(self.sync_flush))
            }
            Asked::RemoveTopic(topic) if reply.code == 0 => {
                self.queues.removed(topic);
                self.pops.topic_removed(topic, taken.number != self.requests);
                self.messages.topic_removed(topic);
                self.documents.confirm(&taken.asked, taken.number, admin_changes(self.sync_flush));
                Ok(())
            }
            Asked::PutTopic { .. } | Asked::PutGroup { .. } | Asked::RemoveGroup(_) if reply.code == 0 => {
                self.documents.confirm(&taken.asked, taken.number, admin_changes(self.sync_flush));
                Ok(())
            }
            Asked::ReadTopic(_) | Asked::ReadGroup(_) => self.documents.read(&taken.asked, taken.sure, reply),
            Asked::FindKey { topic, number } => self.found(topic, *number, reply, scene),
            _ => Ok(()),
        }
    }

    /// The clock is about to be set.
    pub(crate) fn clock_set(&mut self, before: Moment) {
        self.clock_peaks.push(before);
        self.pops.clock_set();
    }

    /// Nobody hears the answer to a request any more.
    pub(crate) fn unanswered(&mut self, taken: &Taken, now: Moment) {
        self.pops.unanswered(taken.number, now.lived);
    }

    /// The latest the wall clock has said from when it has `lived` so long up to `moment`.
    fn latest_wall(&self, lived: u64, moment: Moment) -> u64 {
        let since = self.clock_peaks.iter().filter(|peak| lived <= peak.lived && peak.lived <= moment.lived);
        since.map(|peak| peak.wall).fold(moment.wall, u64::max)
    }

    /// Everything that is known to be written is on the disk.
    pub(crate) fn synced(&mut self) {
        self.offsets.synced();
        self.documents.synced();
        self.queues.synced();
        self.messages.synced();
        self.pops.synced();
    }

    /// Offsets were put into the log, which is written.
    pub(crate) fn commits_written(&mut self) {
        self.offsets.written();
        self.pops.written();
    }

    /// Topics, groups and offsets were written.
    pub(crate) fn saved(&mut self) {
        self.offsets.saved();
        self.documents.saved();
    }

    /// Where queues begin and end now.
    pub(crate) fn looked(&mut self, bounds: &Bounds, scene: &Scene) -> Checked {
        self.queues.looked(bounds, scene)
    }

    /// The node has started again.
    pub(crate) fn restarted(&mut self, how: Stopped, bounds: &Bounds, scene: &Scene) -> Checked {
        self.offsets.restarted(how, bounds);
        self.pops.restarted(how, bounds);
        self.documents.restarted(how);
        let lost = self.queues.restarted(how, bounds, scene)?;
        self.messages.restarted(how, &lost);
        Ok(())
    }

    /// Messages of a topic that a group must have seen once it has read everything.
    pub(crate) fn expected_in(&self, topic: &str, scene: &Scene) -> Vec<u64> {
        self.queues.expected_in(topic, scene)
    }

    /// Numbers of messages of a topic that must be found by their keys.
    pub(crate) fn keys_of(&self, topic: &str, scene: &Scene) -> Vec<u64> {
        self.expected_in(topic, scene)
    }

    /// What was promised for later must be there by now.
    pub(crate) fn all_has_arrived(&self, scene: &Scene) -> Checked {
        self.messages.all_has_arrived(&self.queues, scene)
    }

    /// Whether a pull from `offset` on has something to be given.
    pub(crate) fn has_message_from(&self, queue: (&'static str, u32), offset: i64) -> bool {
        self.queues.epoch_of(Some(queue.0)).is_some() && self.queues.end_of(queue) as i64 > offset
    }
}

/// What is known by name.
type ByName<T> = BTreeMap<&'static str, T>;
