//! Commits of offsets and acknowledgements that are answered: once they are in the log, so that a killed process loses none.
//!
//! Those of one pass go into the log together, and with those of other connections while there are many. A commit that nobody waits for
//! is taken at once, and goes into the log within a tenth of a second.

use std::collections::VecDeque;

use base::Monotonic;
use base::offset::{AckPolicy, Watermark};
use broker::CommitStage;

use super::answer::{Answer, Asked};
use super::connection::Connection;

/// Commits of one connection whose answers may wait: more are not read.
const WAITING_MAX: usize = 4096;

/// The commits of one connection.
#[derive(Default)]
pub(super) struct Commits {
    /// Those of the pass that are to be answered.
    of_pass: Vec<Asked>,
    /// Those whose answers wait for the log, in its order.
    waiting: VecDeque<WaitingCommits>,
    /// How many these are.
    waiting_count: usize,
}

/// Commits whose answers wait for the log.
struct WaitingCommits {
    stage: CommitStage,
    asked: Vec<Asked>,
}

impl Commits {
    /// Takes a commit or an acknowledgement, by what its handler did; its answer comes with those of the pass.
    pub(super) fn take(&mut self, done: Result<(), Answer>, asked: Asked, connection: &mut Connection) {
        match done {
            Ok(()) if asked.one_way => {}
            Ok(()) => self.of_pass.push(asked),
            Err(answer) => connection.reply_with(asked, Ok(answer)),
        }
    }

    /// Puts the pass's commits into the log.
    pub(super) fn end_pass(&mut self, connection: &mut Connection) {
        if self.of_pass.is_empty() {
            return;
        }
        let asked = std::mem::take(&mut self.of_pass);
        let count = asked.len();
        let waker = connection.peer.mailbox.waker();
        match connection.broker.offsets.gather_commits(waker, connection.now) {
            Ok(stage) => {
                self.waiting.push_back(WaitingCommits { stage, asked });
                self.waiting_count += count;
                self.release(connection);
                if let CommitStage::Logged(end) = stage
                    && self.waiting.back().is_some_and(|last| last.stage == stage)
                {
                    connection.broker.durability.when(Watermark::Written, end, connection.peer.mailbox.waker());
                }
            }
            Err(refusal) => asked.into_iter().for_each(|asked| connection.refuse(asked, &refusal)),
        }
    }

    /// When commits that gather have to go into the log.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        match self.waiting.front()?.stage {
            CommitStage::Gathering { due, .. } => Some(due),
            CommitStage::Logged(_) => None,
        }
    }

    /// Answers commits that are in the log, or never will be.
    pub(super) fn release(&mut self, connection: &mut Connection) {
        while let Some(first) = self.waiting.front_mut() {
            let mut refusal = None;
            if let CommitStage::Gathering { round, .. } = first.stage {
                match connection.broker.offsets.gathered_commits(round, connection.now) {
                    Ok(stage) => {
                        first.stage = stage;
                        if let CommitStage::Logged(end) = stage
                            && !connection.broker.durability.is_kept(AckPolicy::WRITTEN, end)
                        {
                            let waker = connection.peer.mailbox.waker();
                            connection.broker.durability.when(Watermark::Written, end, waker);
                        }
                    }
                    Err(refused) => refusal = Some(refused),
                }
            }
            let written = connection.broker.durability.reached(Watermark::Written);
            if !matches!(first.stage, CommitStage::Logged(end) if end <= written) {
                refusal = refusal.or_else(|| connection.broker.durability.poisoned());
                if refusal.is_none() {
                    return;
                }
            }
            let Some(released) = self.waiting.pop_front() else { return };
            self.waiting_count -= released.asked.len();
            match refusal {
                None => connection.confirm(&released.asked),
                Some(refusal) => released.asked.into_iter().for_each(|asked| connection.refuse(asked, &refusal)),
            }
        }
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_count + self.of_pass.len() < WAITING_MAX
    }

    /// Bytes that those take whose answers wait.
    pub(super) const fn size(&self) -> usize {
        self.waiting_count * size_of::<Asked>()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
