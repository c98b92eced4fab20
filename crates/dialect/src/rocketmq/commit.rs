//! Commits of offsets that are answered: once they are in the log, so that a killed process loses none.
//!
//! Those of one pass go into the log together. A commit that nobody waits for is taken at once, and goes into the log within a tenth of a
//! second.

use base::offset::{AckPolicy, Watermark};
use base::{LogOffset, Now};
use wire::rocketmq::frame::Command;

use super::answer::{Answer, Asked};
use super::offset;
use super::send::SendPass;
use super::session::RocketSession;

/// Commits whose answers wait for the log.
pub(super) struct WaitingCommits {
    /// What `written` must pass.
    end: LogOffset,
    asked: Vec<Asked>,
}

impl RocketSession {
    /// Takes a commit; its answer comes with those of the pass.
    pub(super) fn commit(&mut self, command: &Command<'_>, asked: Asked, pass: &mut SendPass) {
        match offset::commit(&self.broker, command) {
            Ok(_) if asked.one_way => {}
            Ok(_) => pass.commits.push(asked),
            Err(refusal) => self.refuse(asked, &refusal),
        }
    }

    /// Puts the pass's commits into the log.
    pub(super) fn keep_commits(&mut self, pass: &mut SendPass, now: Now) {
        if pass.commits.is_empty() {
            return;
        }
        let asked = std::mem::take(&mut pass.commits);
        match self.broker.keep_changes(now) {
            Ok(end) => {
                self.waiting_commits.push_back(WaitingCommits { end, asked });
                self.release_commits();
                if self.waiting_commits.back().is_some_and(|last| last.end == end) {
                    self.broker.when(AckPolicy::WRITTEN, end, &self.mailbox.waker());
                }
            }
            Err(refusal) => asked.into_iter().for_each(|asked| self.refuse(asked, &refusal)),
        }
    }

    /// Answers commits that are in the log, or never will be.
    pub(super) fn release_commits(&mut self) {
        let written = self.broker.reached(Watermark::Written);
        while let Some(first) = self.waiting_commits.front() {
            let refusal = if first.end <= written { None } else { self.broker.poisoned() };
            if first.end > written && refusal.is_none() {
                return;
            }
            let Some(released) = self.waiting_commits.pop_front() else { return };
            let answered = |refusal: &Option<_>| refusal.clone().map_or_else(|| Ok(Answer::ok()), Err);
            released.asked.into_iter().for_each(|asked| self.reply_with(asked, answered(&refusal)));
        }
    }
}
