//! What answers to pops say, held against what may be so.

use crate::connection::Reply;
use crate::oracle::lanes::{Acknowledged, Grant, LATE_MS_MAX, Message, Unheard};
use crate::oracle::queues::Queues;
use crate::oracle::{Checked, Moment, Oracle, Rule, Scene, Taken, Violation, check};
use crate::popping::{Held, PopAsked, Popping};
use crate::request::{Queue, number_in, tag_of};
use crate::roster::{BRIEF_TOPIC, POP_DEAD_TOPICS, POP_GROUPS, QUEUES, TOPICS};
use format::record::{self, Record};
use std::collections::BTreeMap;
use wire::rocketmq::pop::answer::message_offsets;
use wire::rocketmq::pop::origin::Origin;

use super::{FOUND, Key, NO_MESSAGE, NOTHING, Pending};

impl Oracle {
    /// Where queues of a topic end by what is known.
    pub(in crate::oracle) fn ends_of(&self, topic: Option<&'static str>) -> [u64; QUEUES as usize] {
        let end = |queue: usize| topic.map_or(0, |topic| self.queues.end_of((topic, queue as u32)));
        std::array::from_fn(end)
    }

    /// A consumer that pops was answered.
    pub(in crate::oracle) fn pops_answered(
        &mut self,
        asked: &PopAsked,
        taken: &Taken,
        reply: &Reply,
        scene: &Scene,
    ) -> Checked {
        match asked {
            PopAsked::Pop(popping) => self.popped(popping, taken, reply, scene),
            PopAsked::Ack(..) | PopAsked::AckAll(..) => {
                let is_gone = asked.held().iter().any(|held| self.is_gone(held, scene));
                self.pops.acks_answered(taken.number, reply, taken.lived, is_gone)
            }
            // What retention has taken is nobody's.
            PopAsked::Change(_, held, _) if reply.code == NO_MESSAGE && self.is_gone(held, scene) => {
                self.pops.unanswered(taken.number, scene.now.lived);
                Ok(())
            }
            PopAsked::Change(_, _, invisible_ms) => {
                self.pops.change_answered(taken.number, *invisible_ms, reply, (taken.lived, scene.now.lived))
            }
            PopAsked::Notice(_) => self.noticed(taken, reply, scene),
        }
    }

    fn noticed(&mut self, taken: &Taken, reply: &Reply, scene: &Scene) -> Checked {
        let Some(notice) = self.pops.notices.remove(&taken.number) else { return Ok(()) };
        let is_sure = taken.epoch.is_some() && taken.epoch == self.queues.epoch_of(Some(notice.popping.topic));
        let is_nothing = reply.code == FOUND && reply.fields.get("hasMsg").is_some_and(|has| has == "false");
        if is_nothing && is_sure { self.check_nothing_is_ready(&notice, taken, scene) } else { Ok(()) }
    }

    fn is_gone(&self, held: &Held, scene: &Scene) -> bool {
        let known = self.queues.before(held.queue, held.offset + 1).find(|(offset, _)| **offset == held.offset);
        known.is_none_or(|(_, known)| known.is_excused(scene))
    }

    fn popped(&mut self, popping: &Popping, taken: &Taken, reply: &Reply, scene: &Scene) -> Checked {
        let Some(pending) = self.pops.pending.remove(&taken.number) else { return Ok(()) };
        let is_sure = taken.epoch.is_some() && taken.epoch == self.queues.epoch_of(Some(popping.topic));
        match reply.code {
            FOUND if is_sure => self.messages_given(&pending, taken, reply, scene),
            NOTHING if is_sure => self.check_nothing_is_ready(&pending, taken, scene),
            NOTHING => Ok(()),
            _ => {
                self.pops.note_unheard(popping, scene.now.lived);
                Ok(())
            }
        }
    }

    fn messages_given(&mut self, pending: &Pending, taken: &Taken, reply: &Reply, scene: &Scene) -> Checked {
        let popping = pending.popping;
        let unreadable = || Violation::of(Rule::AnswersAreWhole, format!("{popping:?} is answered with {reply}"));
        let number = |name: &str| reply.number(name).ok_or_else(unreadable);
        let name = (number("popTime")?, number("reviveQid")? as i32);
        let (granted, granted_max) = self.when(name.0 as u64, taken.lived, scene.now).ok_or_else(unreadable)?;
        // Another request by the same attempt may take it back.
        let may_be_taken_back = popping.attempt.is_some_and(|attempt| attempt > 0)
            && self.pops.pending.values().any(|Pending { popping: other, .. }| {
                (other.group, other.topic, other.attempt) == (popping.group, popping.topic, popping.attempt)
            });
        let grant = Grant {
            name,
            asked: taken.number,
            heard: self.requests,
            granted,
            answered: scene.now.lived,
            until: if may_be_taken_back { 0 } else { granted + popping.invisible_ms },
            over_by: granted_max + popping.invisible_ms + LATE_MS_MAX,
            attempt: popping.attempt,
            before: 0,
            is_over: false,
            is_changing: false,
        };
        let listed = reply.fields.get("msgOffsetInfo").map(String::as_str).unwrap_or_default();
        let listed = message_offsets(listed).map_err(|_| unreadable())?;
        let listed = listed
            .into_iter()
            .flat_map(|(queue, offsets)| offsets.into_iter().map(move |offset| (queue.origin, queue.queue_id, offset)));
        let mut given: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for bytes in record::split(&reply.body) {
            let record =
                Record::decode(bytes).map_err(|error| Violation::of(Rule::AnswersAreWhole, error.to_string()))?;
            self.message_given(pending, &grant, &record, taken)?;
            given.entry(record.queue.0).or_default().push(record.queue_offset.0);
        }
        let found = given
            .iter()
            .flat_map(|(queue, offsets)| offsets.iter().map(|offset| (Origin::Topic, *queue as i32, *offset as i64)));
        let count = given.values().map(Vec::len).sum::<usize>();
        let is_whole = listed.eq(found) && count > 0 && count <= popping.count as usize;
        check(is_whole, Rule::AnswersAreWhole, || format!("{popping:?} is answered with {reply}"))?;
        if popping.attempt.is_some() {
            given
                .iter()
                .try_for_each(|(queue, offsets)| self.check_order(pending, (*queue, offsets), &grant, scene))?;
        }
        Ok(())
    }

    fn message_given(&mut self, pending: &Pending, grant: &Grant, record: &Record<'_>, taken: &Taken) -> Checked {
        let popping = pending.popping;
        let (queue, offset) = ((popping.topic, record.queue.0), record.queue_offset.0);
        let shown = format!("{offset} of {queue:?} for {}", popping.group);
        let is_wanted = record.topic == popping.topic && popping.wants(popping.group, queue);
        check(is_wanted && record.body_is_intact(), Rule::AnswersAreWhole, || format!("{popping:?} is given {shown}"))?;
        let number = number_in(record.body);
        let number = number.ok_or_else(|| Violation::of(Rule::NothingComesFromNowhere, shown.clone()))?;
        check(popping.tag.is_none_or(|tag| tag == tag_of(number)), Rule::AnswersAreWhole, || {
            format!("{popping:?} is given m{number} at {shown}")
        })?;
        let expected = self.messages().seen(popping.topic, (number, 0), taken.epoch.unwrap_or_default())?;
        let body_size = expected.body_size();
        self.queues.put(queue, offset, ((number, 0), body_size), record.log_offset.0, false)?;
        let before = u32::try_from(record.reconsume_times).unwrap_or(u32::MAX);
        let tries = self.pops.tries_of(popping.group);
        check(before <= tries, Rule::GivesAreCounted, || {
            format!("{shown} is given again though it was given {before} times, and {tries} times again is all")
        })?;
        let now = self.pops.unheard(popping.group, popping.topic, taken.number);
        let lane = self.pops.lanes.entry((popping.group, queue)).or_default();
        lane.give(offset, grant.clone(), before, Unheard { before: pending.unheard, now }, &shown)
    }

    /// In order: nobody else has messages of the queue, and nothing is passed over.
    fn check_order(
        &self,
        pending: &Pending,
        (queue, given): (u32, &Vec<u64>),
        grant: &Grant,
        scene: &Scene,
    ) -> Checked {
        let key = (pending.popping.group, (pending.popping.topic, queue));
        let Some(lane) = self.pops.lanes.get(&key).filter(|lane| lane.resets == 0) else { return Ok(()) };
        let is_gone = |offset: u64| {
            self.queues.before(key.1, offset + 1).any(|(at, known)| *at == offset && known.is_excused(scene))
        };
        lane.check_is_free_for(grant, is_gone)?;
        let end = given.last().copied().unwrap_or_default().min(pending.ends[queue as usize]);
        let unheard = self.pops.unheard(key.0, key.1.0, grant.asked);
        let passed_over = self.queues.before(key.1, end).find(|(offset, known)| {
            !given.contains(offset)
                && !self.pops.is_settled(key, **offset, known.identity.0, unheard)
                && !known.is_excused(scene)
                && !scene.was_ill
        });
        check(passed_over.is_none(), Rule::OrderedPopsKeepOrder, || {
            format!("{key:?} is given {given:?} before {passed_over:?}: {lane:?}")
        })
    }

    /// Somebody was told that there is nothing, which is so.
    fn check_nothing_is_ready(&self, pending: &Pending, taken: &Taken, scene: &Scene) -> Checked {
        let popping = pending.popping;
        let asking = self.pops.asking.get(&(popping.group, popping.topic)).copied().unwrap_or_default();
        let unheard = self.pops.unheard(popping.group, popping.topic, taken.number);
        let is_alone = asking.last <= taken.number && asking.over_by <= taken.lived && unheard == asking.unheard;
        if !is_alone || scene.was_ill || popping.tag.is_some() {
            return Ok(());
        }
        for queue in (0..QUEUES).filter(|queue| popping.queue.is_none_or(|wanted| wanted == *queue)) {
            let key = (popping.group, (popping.topic, queue));
            let Some(lane) = self.pops.lanes.get(&key) else { continue };
            let in_hands =
                |offset: &u64| lane.messages.get(offset).is_some_and(|message| !message.is_free(taken.lived));
            let is_dying = |offset: &u64, number| {
                (unheard > 0 || lane.messages.contains_key(offset))
                    && self.pops.is_settled(key, *offset, number, unheard)
            };
            let mut known = self.queues.before(key.1, pending.ends[queue as usize]);
            if popping.attempt.is_some()
                && known.any(|(offset, known)| in_hands(offset) || is_dying(offset, known.identity.0))
            {
                continue;
            }
            let ready = self.queues.before(key.1, pending.ends[queue as usize]).find(|(offset, known)| {
                !in_hands(offset)
                    && !self.pops.is_settled(key, **offset, known.identity.0, unheard)
                    && !known.is_excused(scene)
            });
            check(ready.is_none(), Rule::ReadyIsGiven, || {
                format!("{popping:?} is told that there is nothing, and there is {ready:?} of {key:?}: {lane:?}")
            })?;
        }
        Ok(())
    }

    /// When the wall clock said so, since it has `lived` so long: at the earliest and at the latest.
    fn when(&self, wall: u64, lived: u64, now: Moment) -> Option<(u64, u64)> {
        let mut since = lived;
        let mut found = None;
        for moment in self.clock_peaks.iter().filter(|peak| peak.lived >= lived).chain([&now]) {
            let at = moment.lived.checked_add_signed(wall as i64 - moment.wall as i64);
            if let Some(at) = at.filter(|at| (since..=moment.lived).contains(at)) {
                let (first, _) = *found.get_or_insert((at, at));
                found = Some((first, at));
            }
            since = moment.lived;
        }
        found
    }

    /// How far a group that pops is said to be: nothing before is left to be given.
    pub(in crate::oracle) fn progress_read(
        &self,
        group: &'static str,
        queue: Queue,
        taken: &Taken,
        reply: &Reply,
        scene: &Scene,
    ) -> Checked {
        let Some(offset) = reply.number("offset").filter(|_| reply.code == 0) else { return Ok(()) };
        if taken.epoch.is_none() || taken.epoch != self.queues.epoch_of(Some(queue.0)) || scene.was_ill {
            return Ok(());
        }
        self.check_settled((group, queue), offset.max(0) as u64, scene, Rule::CommitsHold)
    }

    fn check_settled(&self, key: Key, end: u64, scene: &Scene, rule: Rule) -> Checked {
        let unheard = self.pops.unheard(key.0, key.1.0, 0);
        let left = self.queues.before(key.1, end).find(|(offset, known)| {
            !self.pops.is_settled(key, **offset, known.identity.0, unheard) && !known.is_excused(scene)
        });
        check(left.is_none(), rule, || {
            let message = left.and_then(|(offset, _)| self.pops.lanes.get(&key)?.messages.get(offset));
            format!("{key:?} is at {end}, and {left:?} is not acknowledged: {message:?}")
        })
    }

    /// Those who pop were given everything: what they did not acknowledge is a dead letter.
    pub(crate) fn all_was_popped(&self, scene: &Scene) -> Checked {
        let scene = Scene { unreadable: scene.once_unreadable.clone(), ..scene.clone() };
        for (group, dead_topic) in POP_GROUPS.into_iter().zip(POP_DEAD_TOPICS) {
            for queue in TOPICS.into_iter().flat_map(|topic| (0..QUEUES).map(move |queue| (topic, queue))) {
                if self.queues.epoch_of(Some(queue.0)).is_none() {
                    continue;
                }
                let lane = self.pops.lanes.get(&(group, queue));
                let (times, unheard) = (self.pops.tries_of(group) + 1, self.pops.unheard(group, queue.0, 0));
                // A dead letter may have been in a sector that could not be read.
                let may_be_dead = |message: &Message| {
                    !scene.once_unreadable.is_empty() && message.may_have_been_given(times, unheard)
                };
                let is_settled = |offset: u64, number: u64| {
                    let Some(lane) = lane else { return false };
                    let message = lane.messages.get(&offset);
                    message.is_some_and(|message| message.acknowledged != Acknowledged::No || may_be_dead(message))
                        || lane.tags.iter().any(|tag| *tag != tag_of(number))
                        || offset < lane.settled_below
                        || lane.resets > 0
                };
                let left = self.queues.before(queue, u64::MAX).find(|(offset, known)| {
                    !is_settled(**offset, known.identity.0)
                        && !known.is_excused(&scene)
                        && !self.queues.has_number(dead_topic, known.identity.0)
                });
                check(left.is_none(), Rule::PopsGiveEverything, || {
                    let message = left.and_then(|(offset, _)| lane?.messages.get(offset));
                    format!("{left:?} of {queue:?} was not given to {group}, or is forgotten: {message:?}")
                })?;
            }
        }
        Ok(())
    }

    /// A dead letter of a group that pops: it was given as often as it may be.
    pub(in crate::oracle) fn dead_letter_given(
        &self,
        group: &'static str,
        number: u64,
        record: &Record<'_>,
    ) -> Checked {
        let tries = self.pops.tries_of(group);
        let shown =
            || format!("m{number} among the dead letters of {group}, which was given {} times", record.reconsume_times);
        check(i64::from(record.reconsume_times) > i64::from(tries), Rule::DeadLettersAreEarned, shown)?;
        let places = TOPICS.into_iter().flat_map(|topic| (0..QUEUES).map(move |queue| (topic, queue)));
        for queue in places {
            let Some(offset) = self.queues.offset_of(queue, number) else { continue };
            let unheard = self.pops.unheard(group, queue.0, 0);
            let message = self.pops.lanes.get(&(group, queue)).and_then(|lane| lane.messages.get(&offset));
            if message.is_none() && queue.0 == BRIEF_TOPIC {
                // It was given while it was not sure whether its topic was removed.
                continue;
            }
            let is_earned = message
                .map_or(unheard > u64::from(tries), |message| message.may_ever_have_been_given(tries + 1, unheard));
            check(is_earned, Rule::DeadLettersAreEarned, || format!("{}: {message:?}", shown()))?;
        }
        Ok(())
    }
}

impl Queues {
    /// Whether a topic has a message, however often it was tried.
    fn has_number(&self, topic: &'static str, number: u64) -> bool {
        (0..QUEUES).any(|queue| self.offset_of((topic, queue), number).is_some())
    }

    /// Where a message is in a queue.
    fn offset_of(&self, queue: Queue, number: u64) -> Option<u64> {
        self.before(queue, u64::MAX).find(|(_, known)| known.identity.0 == number).map(|(offset, _)| *offset)
    }
}
