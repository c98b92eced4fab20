//! What groups are given that pop, and what they say of it.

mod answers;

use std::collections::BTreeMap;

use super::lanes::{Acknowledged, Effect, Grant, LATE_MS_MAX, Lane};
use super::{Checked, Rule, Stopped, Violation, check};
use crate::connection::Reply;
use crate::node::Bounds;
use crate::popping::{Held, PopAsked, Popping};
use crate::request::{Queue, tag_of};
use crate::roster::{POP_DEAD_TOPICS, POP_GROUPS, QUEUES};

/// Answers to pops: messages; none.
const FOUND: i32 = 0;
const NOTHING: i32 = 19;
/// A place that has no message, or a receipt that holds none.
const NO_MESSAGE: i32 = 208;

/// A group's messages in a queue.
type Key = (&'static str, Queue);

/// What a request says of a message that somebody has.
#[derive(Clone, Copy, Debug)]
struct Said {
    key: Key,
    offset: u64,
    held: Held,
    effect: Effect,
    /// The lane's life then.
    life: u64,
}

/// A pop that is not answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    popping: Popping,
    /// How far the queues of its topic went by what was known.
    ends: [u64; QUEUES as usize],
    unheard: u64,
}

/// Pops of a group from a topic.
#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    /// How many were answered and nobody heard it, and until when messages are held by them at most.
    unheard: u64,
    over_by: u64,
    /// The last.
    last: u64,
}

/// Everything about those who pop.
#[derive(Debug, Default)]
pub(super) struct Pops {
    /// How often each group's messages are given again.
    tries: [u32; 2],
    lanes: BTreeMap<Key, Lane>,
    pending: BTreeMap<u64, Pending>,
    /// Who asks whether there are messages.
    notices: BTreeMap<u64, Pending>,
    said: BTreeMap<u64, Vec<Said>>,
    asking: BTreeMap<(&'static str, &'static str), Asking>,
    /// How many messages were found among the dead letters, by group and number, when these were last read.
    is_clock_sure: bool,
}

/// The group whose dead letters a topic has.
pub(super) fn group_of_dead(topic: &str) -> Option<&'static str> {
    POP_GROUPS.into_iter().zip(POP_DEAD_TOPICS).find_map(|(group, dead)| (dead == topic).then_some(group))
}

/// The group, if its members pop.
pub(super) fn pop_group(group: &str) -> Option<&'static str> {
    POP_GROUPS.into_iter().find(|known| *known == group)
}

impl Pops {
    pub(super) fn new(tries: Option<[i32; 2]>) -> Self {
        let tries = tries.unwrap_or_default().map(|tries| u32::try_from(tries).unwrap_or_default());
        Self { tries, is_clock_sure: true, ..Self::default() }
    }

    fn tries_of(&self, group: &str) -> u32 {
        POP_GROUPS.iter().zip(self.tries).find_map(|(known, tries)| (*known == group).then_some(tries)).unwrap_or(0)
    }

    /// Pops of a group from a topic whose answers nobody heard, and those that have none yet but for this one.
    fn unheard(&self, group: &'static str, topic: &'static str, but: u64) -> u64 {
        let others = self.pending.iter().filter(|(number, pending)| {
            **number != but && pending.popping.group == group && pending.popping.topic == topic
        });
        others.count() as u64 + self.asking.get(&(group, topic)).map_or(0, |asking| asking.unheard)
    }

    /// A request came.
    pub(super) fn taken(&mut self, asked: &PopAsked, number: u64, now: u64, ends: [u64; QUEUES as usize]) {
        match asked {
            PopAsked::Pop(popping) => self.popping(*popping, number, now, ends),
            PopAsked::Ack(group, held) => {
                let said = self.acknowledging(group, *held, (number, now));
                self.said.insert(number, vec![said]);
            }
            PopAsked::AckAll(group, all) => {
                let said = all.iter().map(|held| self.acknowledging(group, *held, (number, now))).collect();
                self.said.insert(number, said);
            }
            PopAsked::Change(group, held, invisible_ms) => {
                let key = (*group, held.queue);
                let lane = self.lanes.entry(key).or_default();
                let effect = lane.changing(held.offset, held.name, now, now + invisible_ms);
                self.said.insert(number, vec![Said { key, offset: held.offset, held: *held, effect, life: lane.life }]);
            }
            PopAsked::Notice(popping) => {
                self.notices.insert(number, Pending { popping: *popping, ends, unheard: 0 });
            }
        }
    }

    fn popping(&mut self, popping: Popping, number: u64, lived: u64, ends: [u64; QUEUES as usize]) {
        let asking = self.asking.entry((popping.group, popping.topic)).or_default();
        asking.last = number;
        let unheard = asking.unheard;
        self.pending.insert(number, Pending { popping, ends, unheard });
        for queue in (0..QUEUES).filter(|queue| popping.wants(popping.group, (popping.topic, *queue))) {
            let lane = self.lanes.entry((popping.group, (popping.topic, queue))).or_default();
            lane.tags.extend(popping.tag);
            if let Some(attempt) = popping.attempt.filter(|attempt| *attempt > 0) {
                lane.asked_again(attempt, (number, lived));
            }
        }
    }

    fn acknowledging(&mut self, group: &'static str, held: Held, at: (u64, u64)) -> Said {
        let key = (group, held.queue);
        let is_clock_sure = self.is_clock_sure;
        // A receipt of others names the grant of a pop whose answer nobody has heard, if both are of one time.
        let is_awaited = self.pending.values().any(|Pending { popping, .. }| popping.wants(group, held.queue));
        let lane = self.lanes.entry(key).or_default();
        if is_awaited {
            lane.may_be_acknowledged(held.offset, at);
        }
        let effect = lane.acknowledging(held.offset, held.name, at, is_clock_sure);
        Said { key, offset: held.offset, held, effect, life: lane.life }
    }

    /// The lane of what was said, if it is still the one.
    fn lane_of(&self, said: &Said) -> Option<&Lane> {
        self.lanes.get(&said.key).filter(|lane| lane.life == said.life)
    }

    fn lane_of_mut(&mut self, said: &Said) -> Option<&mut Lane> {
        self.lanes.get_mut(&said.key).filter(|lane| lane.life == said.life)
    }

    /// With `is_gone` retention has taken what is acknowledged, which is nobody's.
    fn acks_answered(&mut self, number: u64, reply: &Reply, lived: u64, is_gone: bool) -> Checked {
        let all = self.said.remove(&number).unwrap_or_default();
        let is_sure = |said: &Said| said.effect == Effect::Sure && self.lane_of(said).is_some();
        let is_refused = reply.code == NO_MESSAGE && !is_gone && !all.is_empty() && all.iter().all(is_sure);
        check(!is_refused, Rule::ReceiptsHold, || format!("{all:?} are held, and were to be acknowledged: {reply}"))?;
        for said in all {
            if reply.code == FOUND
                && said.effect == Effect::Sure
                && let Some(lane) = self.lane_of_mut(&said)
            {
                lane.acknowledged(said.offset, said.held.name, (number, lived))?;
            }
        }
        Ok(())
    }

    fn change_answered(&mut self, number: u64, invisible_ms: u64, reply: &Reply, (lived, now): (u64, u64)) -> Checked {
        let is_clock_sure = self.is_clock_sure;
        for said in self.said.remove(&number).unwrap_or_default() {
            let shown = format!("{} of {:?}", said.offset, said.key);
            let Some(lane) = self.lane_of_mut(&said) else { continue };
            match reply.code {
                FOUND => {
                    check(said.effect != Effect::None || !is_clock_sure, Rule::ReceiptsHold, || {
                        format!("{shown} is changed by the receipt {:?}, which holds nothing", said.held)
                    })?;
                    let Some(changed) = said.held.changed(said.key.0, reply) else {
                        return Err(Violation::of(Rule::AnswersAreWhole, format!("a change is answered with {reply}")));
                    };
                    let until = lived + invisible_ms;
                    let grant = Grant {
                        name: changed.name,
                        asked: number,
                        heard: number,
                        granted: lived,
                        answered: now,
                        until,
                        over_by: until + LATE_MS_MAX,
                        attempt: None,
                        before: 0,
                        is_over: false,
                        is_changing: false,
                    };
                    lane.changed(said.offset, said.held.name, grant, &shown)?;
                }
                NO_MESSAGE => check(said.effect != Effect::Sure, Rule::ReceiptsHold, || {
                    format!("{shown} is not held by {:?}, and was to be: {reply}", said.held)
                })?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Nobody hears the answer to a request any more.
    pub(super) fn unanswered(&mut self, number: u64, now: u64) {
        self.said.remove(&number);
        self.notices.remove(&number);
        if let Some(Pending { popping, .. }) = self.pending.remove(&number) {
            self.note_unheard(&popping, now);
        }
    }

    fn note_unheard(&mut self, popping: &Popping, now: u64) {
        let asking = self.asking.entry((popping.group, popping.topic)).or_default();
        asking.unheard += 1;
        asking.over_by = asking.over_by.max(now + popping.invisible_ms + LATE_MS_MAX);
    }

    pub(super) fn committed(&mut self, group: &'static str, queue: Queue, offset: i64, now: u64) {
        let lane = self.lanes.entry((group, queue)).or_default();
        lane.was_committed = true;
        lane.settling(offset.max(0) as u64, now);
    }

    pub(super) fn resetting(&mut self, (group, topic): (&'static str, &'static str), offset: i64, at: (u64, u64)) {
        for queue in 0..QUEUES {
            self.lanes.entry((group, (topic, queue))).or_default().resetting(offset.max(0) as u64, at);
        }
    }

    pub(super) fn reset(
        &mut self,
        (group, topic): (&'static str, &'static str),
        number: u64,
        offsets: &BTreeMap<u32, i64>,
        is_durable: bool,
    ) {
        for (queue, offset) in offsets {
            let lane = self.lanes.entry((group, (topic, *queue))).or_default();
            lane.reset((*offset).max(0) as u64, number, is_durable);
        }
    }

    /// A topic is being removed, or was: with `is_unsure` what is said of it may be about what came into its place.
    pub(super) fn topic_removed(&mut self, topic: &'static str, is_unsure: bool) {
        self.lanes.retain(|(_, (of, _)), _| *of != topic);
        self.said.values_mut().for_each(|all| all.retain(|said| said.key.1.0 != topic));
        for (group, queue) in POP_GROUPS.into_iter().flat_map(|group| (0..QUEUES).map(move |queue| (group, queue))) {
            if is_unsure {
                self.lanes.entry((group, (topic, queue))).or_default().settled_below = u64::MAX;
            }
        }
    }

    pub(super) const fn clock_set(&mut self) {
        self.is_clock_sure = false;
    }

    pub(super) fn written(&mut self) {
        self.lanes.values_mut().for_each(Lane::written);
    }

    pub(super) fn synced(&mut self) {
        self.lanes.values_mut().for_each(Lane::synced);
    }

    pub(super) fn restarted(&mut self, how: Stopped, bounds: &Bounds) {
        self.said.clear();
        self.notices.clear();
        for Pending { popping, .. } in std::mem::take(&mut self.pending).into_values() {
            self.note_unheard(&popping, 0);
        }
        self.asking.values_mut().for_each(|asking| asking.over_by = 0);
        for ((_, (topic, queue)), lane) in &mut self.lanes {
            let end = bounds.get(&((*topic).to_owned(), *queue)).map_or(0, |(_, end)| *end);
            lane.restarted(how, end);
        }
    }

    /// Why a message need not be given to a group, if it need not.
    fn is_settled(&self, (group, queue): Key, offset: u64, number: u64, unheard: u64) -> bool {
        let Some(lane) = self.lanes.get(&(group, queue)) else { return false };
        let is_passed_over = lane.tags.iter().any(|tag| *tag != tag_of(number));
        let message = lane.messages.get(&offset);
        let times = self.tries_of(group).saturating_add(1);
        let is_dead =
            message.map_or(unheard >= u64::from(times), |message| message.may_have_been_given(times, unheard));
        let is_acknowledged = message.is_some_and(|message| message.acknowledged != Acknowledged::No);
        is_acknowledged || is_dead || is_passed_over || offset < lane.settled_below || lane.resets > 0
    }
}
