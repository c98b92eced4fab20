//! What the oracle knows of a group's messages in a queue: who has them, how often they were given, and what is acknowledged.
//!
//! **Always holds**: where it is not sure how something went, either is allowed.

mod count;

use std::collections::BTreeMap;

use super::{Checked, Rule, Stopped, check};
use crate::popping::GrantName;

use count::Count;

/// Leases end so much later than they should, at most.
pub(super) const LATE_MS_MAX: u64 = 100;

/// A message in somebody's hands. All times are of the clock that is never set.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) name: GrantName,
    /// Number of the request that it answers, and of the last request when the answer was heard.
    pub(super) asked: u64,
    pub(super) heard: u64,
    /// When it was made, and when the answer was heard.
    pub(super) granted: u64,
    pub(super) answered: u64,
    /// Nobody else is given the message before,
    pub(super) until: u64,
    /// and the grant is over by then.
    pub(super) over_by: u64,
    /// The attempt of a pop in order: who asks again by its name takes back what it had.
    pub(super) attempt: Option<usize>,
    /// How often the message was given before.
    pub(super) before: u32,
    pub(super) is_over: bool,
    /// Somebody asked for another time: by this receipt it may not be held any more.
    pub(super) is_changing: bool,
}

/// Whether a message is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Acknowledged {
    #[default]
    No,
    /// It may be.
    Maybe,
    /// It is, by a request that came then.
    Yes { number: u64, lived: u64, is_durable: bool },
}

/// A message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    grants: Vec<Grant>,
    pub(super) acknowledged: Acknowledged,
    /// Number and time of the last request that may have acknowledged it.
    ack: (u64, u64),
    count: Count,
}

/// Answers to pops that nobody heard: how many were lost before this one was asked for, and until now with those that are to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheard {
    pub(super) before: u64,
    pub(super) now: u64,
}

/// What a receipt does that was sent with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Something or nothing.
    Maybe,
    /// What it is for.
    Sure,
}

/// A group's messages in a queue.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) messages: BTreeMap<u64, Message>,
    /// All below may be settled: somebody committed or reset an offset.
    pub(super) settled_below: u64,
    /// Tags other than this may be settled, or all: pops wanted some alone.
    pub(super) tags: Vec<&'static str>,
    /// Resets that were not answered.
    pub(super) resets: u64,
    /// How often it began anew, and with which request last.
    pub(super) life: u64,
    void_before: u64,
    /// Whether the disk may not have the last reset.
    is_undurable: bool,
    /// Whether somebody committed an offset.
    pub(super) was_committed: bool,
    /// Number of the last request by an attempt.
    attempts: BTreeMap<usize, u64>,
}

impl Grant {
    /// Whether another was asked for once this one was known, so that it is later.
    const fn precedes(&self, other: &Self) -> bool {
        self.heard <= other.asked || self.answered < other.granted
    }

    const fn is_repeated_by(&self, other: &Self) -> bool {
        matches!((self.attempt, other.attempt), (Some(one), Some(another)) if one == another && one > 0)
    }
}

impl Message {
    /// Nobody has it who was known to.
    fn void(&mut self) {
        self.grants.iter_mut().for_each(|grant| grant.is_over = true);
    }

    fn weaken(&mut self, until: u64) {
        self.grants.iter_mut().for_each(|grant| grant.until = grant.until.min(until));
    }

    /// Whether nobody has it any more at a time.
    pub(super) fn is_free(&self, at: u64) -> bool {
        self.grants.iter().all(|grant| grant.is_over || grant.over_by <= at)
    }

    /// A grant that lasts from before `from` until after `to`, other than of an attempt.
    fn held(&self, by: &Grant) -> Option<&Grant> {
        if self.acknowledged != Acknowledged::No {
            return None;
        }
        let lasts = |grant: &&Grant| grant.precedes(by) && grant.until > by.answered;
        self.grants
            .iter()
            .filter(lasts)
            .find(|grant| !grant.is_over && !grant.is_repeated_by(by) && grant.name != by.name)
    }

    /// Whether it may have been given so often, since it was last counted anew.
    pub(super) const fn may_have_been_given(&self, times: u32, unheard: u64) -> bool {
        self.count.max as u64 + unheard.saturating_sub(self.count.lost) >= times as u64
    }

    /// The same, whenever it was.
    pub(super) const fn may_ever_have_been_given(&self, times: u32, unheard: u64) -> bool {
        self.count.ever as u64 + unheard.saturating_sub(self.count.lost) >= times as u64
    }

    fn check_acknowledged(&mut self, grant: &mut Grant, shown: &str) -> Checked {
        let is_later = |(number, lived): (u64, u64)| grant.asked > number || grant.granted > lived;
        match self.acknowledged {
            Acknowledged::Yes { number, lived, .. } => {
                check(!is_later((number, lived)), Rule::AcknowledgedIsOver, || {
                    format!("{shown} was acknowledged by request {number}, and is given by {grant:?}")
                })?;
                grant.is_over = true;
            }
            Acknowledged::Maybe if is_later(self.ack) => self.acknowledged = Acknowledged::No,
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, grant: &Grant, before: u32, unheard: Unheard, is_sure: bool, shown: &str) -> Checked {
        let Count { min, max, heard, lost, .. } = self.count;
        let may_be = u64::from(max) + unheard.now.saturating_sub(lost);
        let is_later = grant.asked >= heard;
        check(u64::from(before) <= may_be && (!is_later || min <= before), Rule::GivesAreCounted, || {
            format!(
                "{shown} is said to have been given {before} times before, and was {min} to {may_be} times: {grant:?}"
            )
        })?;
        self.count.max = if is_later { before + 1 } else { max.max(before + 1) };
        // With all that nobody heard of until now.
        self.count.ever = self.count.ever.max(self.count.max).max(u32::try_from(may_be).unwrap_or(u32::MAX));
        if is_later {
            self.count.min = if is_sure { before + 1 } else { min };
            (self.count.heard, self.count.lost) = (grant.heard, unheard.before);
        }
        Ok(())
    }

    /// What an attempt has may be taken back, as it asks again: then it does not count.
    fn may_be_taken_back(&mut self, attempt: usize, now: u64) {
        for grant in self.grants.iter_mut().filter(|grant| grant.attempt == Some(attempt)) {
            grant.until = grant.until.min(now);
            if !grant.is_over {
                self.count.lower_to(grant.before);
            }
        }
    }

    /// Adds a grant, of a message that nobody else has.
    fn share(&mut self, mut grant: Grant, shown: &str) -> Checked {
        for other in self.grants.iter_mut().filter(|other| !other.is_over) {
            if other.is_repeated_by(&grant) {
                (other.until, grant.until) = (other.until.min(grant.granted), grant.granted);
                continue;
            }
            let is_after = other.until <= grant.answered;
            let is_before = !other.precedes(&grant) && grant.until <= other.answered;
            check(is_after || is_before, Rule::OneHasIt, || {
                format!("{shown} is given by {grant:?} while {other:?} lasts")
            })?;
            if is_after && other.precedes(&grant) {
                other.is_over = true;
            } else {
                (other.until, grant.until) = (0, 0);
            }
        }
        self.grants.push(grant);
        Ok(())
    }

    fn grant_mut(&mut self, name: GrantName) -> Option<&mut Grant> {
        self.grants.iter_mut().rev().find(|grant| grant.name == name)
    }

    fn restart(&mut self, how: Stopped, is_unsure: bool) {
        self.void();
        match self.acknowledged {
            Acknowledged::Yes { is_durable: false, .. } if how == Stopped::PowerCut => {
                self.acknowledged = Acknowledged::Maybe;
            }
            Acknowledged::Yes { is_durable: false, number, lived } if how == Stopped::InOrder => {
                self.acknowledged = Acknowledged::Yes { number, lived, is_durable: true };
            }
            _ => {}
        }
        if is_unsure {
            (self.acknowledged, self.count.min) = (Acknowledged::Maybe, 0);
        }
        self.count.restart(how);
    }
}

impl Lane {
    /// A message was given, `before` times before as its record says.
    pub(super) fn give(
        &mut self,
        offset: u64,
        mut grant: Grant,
        before: u32,
        unheard: Unheard,
        shown: &str,
    ) -> Checked {
        grant.before = before;
        if self.resets > 0 || grant.asked <= self.void_before || self.was_asked_again(&grant) {
            grant.until = 0;
        }
        let is_sure = grant.until > 0;
        let message = self.messages.entry(offset).or_default();
        message.check_acknowledged(&mut grant, shown)?;
        message.count(&grant, before, unheard, is_sure, shown)?;
        if grant.is_over {
            return Ok(());
        }
        message.share(grant, shown)
    }

    /// In order: nothing else of the queue is in anybody's hands meanwhile, but for what retention has taken or a commit may have settled.
    pub(super) fn check_is_free_for(&self, grant: &Grant, is_gone: impl Fn(u64) -> bool) -> Checked {
        let is_there = |offset| self.settled_below <= offset && !is_gone(offset);
        let mut there = self.messages.iter().filter(|(offset, _)| is_there(**offset));
        let held = there.find_map(|(offset, message)| Some((offset, message.held(grant)?)));
        check(held.is_none(), Rule::OrderedPopsKeepOrder, || format!("{grant:?} is given while {held:?} lasts"))
    }

    /// Whoever asks again by the name of an attempt may take back what it had.
    pub(super) fn asked_again(&mut self, attempt: usize, (number, now): (u64, u64)) {
        self.attempts.insert(attempt, number);
        self.messages.values_mut().for_each(|message| message.may_be_taken_back(attempt, now));
    }

    /// Whether somebody asked by a grant's attempt later, and may have taken back what it is for.
    fn was_asked_again(&self, grant: &Grant) -> bool {
        let attempt = grant.attempt.filter(|attempt| *attempt > 0);
        attempt.and_then(|attempt| self.attempts.get(&attempt)).is_some_and(|last| *last > grant.asked)
    }

    /// An acknowledgement came that may be for a grant nobody has heard of.
    pub(super) fn may_be_acknowledged(&mut self, offset: u64, at: (u64, u64)) {
        let message = self.messages.entry(offset).or_default();
        if message.grants.is_empty() {
            (message.ack, message.acknowledged) = (at, Acknowledged::Maybe);
        }
    }

    /// An acknowledgement came.
    pub(super) fn acknowledging(
        &mut self,
        offset: u64,
        name: GrantName,
        at: (u64, u64),
        is_clock_sure: bool,
    ) -> Effect {
        let is_settled = self.resets > 0;
        let Some(message) = self.messages.get_mut(&offset) else { return Effect::None };
        let acknowledged = message.acknowledged;
        let Some(grant) = message.grant_mut(name) else { return Effect::None };
        if grant.is_over && is_clock_sure {
            return Effect::None;
        }
        let is_sure = !grant.is_over
            && !grant.is_changing
            && at.1 < grant.until
            && acknowledged == Acknowledged::No
            && !is_settled;
        message.ack = at;
        if acknowledged == Acknowledged::No {
            message.acknowledged = Acknowledged::Maybe;
        }
        if is_sure { Effect::Sure } else { Effect::Maybe }
    }

    /// It was answered, and was sure to have an effect.
    pub(super) fn acknowledged(&mut self, offset: u64, name: GrantName, (number, lived): (u64, u64)) -> Checked {
        let Some(message) = self.messages.get_mut(&offset) else { return Ok(()) };
        check(message.acknowledged != Acknowledged::No, Rule::AcknowledgedIsOver, || {
            format!("{offset} is given again though request {number} acknowledged it: {message:?}")
        })?;
        message.acknowledged = Acknowledged::Yes { number, lived, is_durable: false };
        message.grant_mut(name).into_iter().for_each(|grant| grant.is_over = true);
        Ok(())
    }

    /// Somebody wants to have a message until another time.
    pub(super) fn changing(&mut self, offset: u64, name: GrantName, now: u64, until: u64) -> Effect {
        let is_settled = self.resets > 0 || offset < self.settled_below;
        let unknown = if offset < self.settled_below { Effect::Maybe } else { Effect::None };
        let Some(message) = self.messages.get_mut(&offset) else { return unknown };
        let acknowledged = message.acknowledged;
        let Some(grant) = message.grant_mut(name).filter(|grant| !grant.is_over) else { return unknown };
        let is_sure = !grant.is_changing && now < grant.until && acknowledged == Acknowledged::No && !is_settled;
        grant.is_changing = true;
        grant.until = grant.until.min(until);
        grant.over_by = grant.over_by.max(until + LATE_MS_MAX);
        if is_sure { Effect::Sure } else { Effect::Maybe }
    }

    /// The time was changed: by this grant it is held now.
    pub(super) fn changed(&mut self, offset: u64, name: GrantName, mut grant: Grant, shown: &str) -> Checked {
        if self.resets > 0 || grant.asked <= self.void_before {
            grant.until = 0;
        }
        let Some(old) = self.messages.get_mut(&offset).and_then(|message| message.grant_mut(name)) else {
            return Ok(());
        };
        old.is_over = true;
        let old = old.clone();
        if self.was_asked_again(&old) {
            grant.until = 0;
        }
        (grant.attempt, grant.before) = (old.attempt, old.before);
        let Some(message) = self.messages.get_mut(&offset) else { return Ok(()) };
        message.share(grant, shown)
    }

    /// All below `offset` is settled, or will be.
    pub(super) fn settling(&mut self, offset: u64, now: u64) {
        self.settled_below = self.settled_below.max(offset);
        self.messages.range_mut(..offset).for_each(|(_, message)| message.weaken(now));
    }

    /// It is about to begin anew.
    pub(super) fn resetting(&mut self, offset: u64, (number, now): (u64, u64)) {
        self.settled_below = self.settled_below.max(offset);
        (self.resets, self.void_before, self.is_undurable) = (self.resets + 1, number, true);
        for message in self.messages.values_mut() {
            message.weaken(now);
            if message.acknowledged != Acknowledged::No {
                message.acknowledged = Acknowledged::Maybe;
            }
            (message.count.min, message.count.logged, message.count.durable) = (0, 0, 0);
        }
        self.life += 1;
    }

    /// It has begun anew at `offset`: what nobody has acknowledged since comes again.
    pub(super) fn reset(&mut self, offset: u64, number: u64, is_durable: bool) {
        (self.resets, self.settled_below) = (self.resets.saturating_sub(1), self.settled_below.max(offset));
        let is_last = self.resets == 0 && self.void_before == number;
        self.is_undurable &= !(is_last && is_durable);
        for (at, message) in &mut self.messages {
            (message.count.min, message.count.logged, message.count.durable) = (0, 0, 0);
            if is_last && *at >= offset && message.ack.0 < number && message.count.heard <= number {
                message.acknowledged = Acknowledged::No;
                message.void();
            }
        }
    }

    /// What gathered was written to the log.
    pub(super) fn written(&mut self) {
        let counts = self.messages.values_mut().map(|message| &mut message.count);
        counts.for_each(|count| count.logged = count.logged.max(count.told()));
    }

    /// What was written is on the disk.
    pub(super) fn synced(&mut self) {
        self.is_undurable = self.resets > 0;
        for message in self.messages.values_mut() {
            message.count.durable = message.count.logged;
            if let Acknowledged::Yes { is_durable, .. } = &mut message.acknowledged {
                *is_durable = true;
            }
        }
    }

    /// The node has started again with a queue that ends at `end`.
    pub(super) fn restarted(&mut self, how: Stopped, end: u64) {
        drop(self.messages.split_off(&end));
        // Of a topic that is being removed nothing is sure until that is answered.
        if self.settled_below != u64::MAX {
            self.settled_below = self.settled_below.min(end);
        }
        let is_unsure = self.resets > 0 || self.is_undurable && how == Stopped::PowerCut;
        self.messages.values_mut().for_each(|message| message.restart(how, is_unsure));
        (self.resets, self.is_undurable) = (0, false);
        self.life += 1;
    }
}
