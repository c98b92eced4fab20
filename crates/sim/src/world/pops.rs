//! Consumers that pop: what they do by the story, and how they get everything in the end.

use std::collections::BTreeMap;

use broker::Work as Own;
use format::record::{self, Record};
use wire::rocketmq::pop::answer::start_offsets;

use super::World;
use crate::connection::Reply;
use crate::node::Work;
use crate::oracle::{Checked, Rule, check};
use crate::popping::{Held, PopAsked, Popping};
use crate::pops::{PopAction, ReceiptKind};
use crate::request::Asked;
use crate::roster::{ADMIN, CONNECTIONS, EVERYDAY_CONNECTIONS, FIRST_POPPER, POP_GROUPS, POPPERS, QUEUES, TOPICS};

/// Receipts that are remembered.
const RECEIPTS_MAX: usize = 100;

/// In the end a group pops until nothing has come for so many rounds, with time between them in which leases end.
const EMPTY_ROUNDS: usize = 3;
const ROUNDS_MAX: usize = 60;
const ROUND_MS: u64 = 7000;
/// For so long a message is held then.
const HELD_MS: u64 = 10_000;
/// Pops of a queue that may fail in one round: what cannot be read is not all that is there.
const FAILURES_MAX: usize = 5;

/// Messages that are held for no time come back with the end of leases, and are given again, so often at most.
const ENDS_MAX: usize = 10;

/// The clients' names.
const CLIENTS: [&str; POPPERS.len()] = ["popper-1", "popper-2", "popper-3"];

impl World {
    /// Clients that the story has.
    pub(super) const fn connection_count(&self) -> usize {
        if self.setup.pops.is_some() { CONNECTIONS } else { EVERYDAY_CONNECTIONS }
    }

    /// The groups are set up before anything happens, and on the disk.
    pub(super) fn make_pop_groups(&mut self) -> Checked {
        let Some(pops) = self.setup.pops else { return Ok(()) };
        for (group, tries) in POP_GROUPS.into_iter().zip(pops.tries) {
            self.ask(ADMIN, Asked::PutGroup { group, tries });
        }
        self.arrive_all(usize::MAX);
        self.settle(true)?;
        self.work(Work::Write)?;
        self.work(Work::Sync)?;
        self.settle(true)
    }

    /// Somebody that pops does something.
    pub(super) fn pop(&mut self, action: &PopAction) {
        let (popper, asked) = match *action {
            PopAction::Join { popper } => (popper, Some(joining(popper))),
            PopAction::Pop { popper, topic, queue, count, invisible_ms, wait_ms, attempt, tag } => {
                let group = POP_GROUPS[POPPERS[popper]];
                // A name is of one client.
                let attempt = attempt.map(|attempt| if attempt == 0 { 0 } else { 10 * popper + attempt });
                let popping = Popping { group, topic, queue, count, invisible_ms, wait_ms, attempt, tag };
                (popper, Some(Asked::Pops(PopAsked::Pop(popping))))
            }
            PopAction::Notice { popper, topic, queue, wait_ms } => {
                let popping = Popping { wait_ms, ..everything(POP_GROUPS[POPPERS[popper]], topic, queue) };
                (popper, Some(Asked::Pops(PopAsked::Notice(popping))))
            }
            PopAction::Ack { popper, back, receipt } => {
                let ack = |(group, held)| Asked::Pops(PopAsked::Ack(group, held));
                (popper, self.receipt(popper, back, receipt).map(ack))
            }
            PopAction::AckAll { popper, back } => (popper, self.ack_all(popper, back)),
            PopAction::Change { popper, back, receipt, invisible_ms } => {
                let change = |(group, held)| Asked::Pops(PopAsked::Change(group, held, invisible_ms));
                (popper, self.receipt(popper, back, receipt).map(change))
            }
            PopAction::Commit { popper, topic, queue, offset } => {
                let group = POP_GROUPS[POPPERS[popper]];
                (popper, Some(Asked::Commit { group, queue: (topic, queue), offset, is_one_way: false }))
            }
            PopAction::ReadCommitted { popper, topic, queue } => {
                (popper, Some(Asked::Committed { group: POP_GROUPS[POPPERS[popper]], queue: (topic, queue) }))
            }
            PopAction::Reset { popper, topic, offset } => {
                let asked = Asked::Reset { group: POP_GROUPS[POPPERS[popper]], topic, offset };
                return self.ask(ADMIN, asked);
            }
        };
        asked.into_iter().for_each(|asked| self.ask(FIRST_POPPER + popper, asked));
    }

    /// A message that a group was given, by a receipt of that kind.
    fn receipt(&self, popper: usize, back: usize, kind: ReceiptKind) -> Option<(&'static str, Held)> {
        let group = POP_GROUPS[POPPERS[popper]];
        let is_own = kind != ReceiptKind::Foreign;
        let known: Vec<_> = self.receipts.iter().rev().filter(|held| (held.group == group) == is_own).collect();
        let held = **known.get(back.checked_rem(known.len())?)?;
        Some((group, if kind == ReceiptKind::Forged { held.forged() } else { held }))
    }

    /// Everything that came with a message.
    fn ack_all(&self, popper: usize, back: usize) -> Option<Asked> {
        let (group, held) = self.receipt(popper, back, ReceiptKind::Own)?;
        let all = self.receipts.iter().filter(|other| other.group == group && other.name == held.name);
        Some(Asked::Pops(PopAsked::AckAll(group, all.copied().collect())))
    }

    /// Notes what somebody was given.
    pub(super) fn note_receipts(&mut self, asked: &PopAsked, reply: &Reply) {
        match asked {
            _ if reply.code != 0 => {}
            PopAsked::Pop(popping) => self.receipts.extend(given(popping, reply)),
            PopAsked::Change(group, held, _) => self.receipts.extend(held.changed(group, reply)),
            _ => {}
        }
        let surplus = self.receipts.len().saturating_sub(RECEIPTS_MAX);
        self.receipts.drain(..surplus);
    }

    /// All sessions come to rest, and then nobody waits for what is there. Who takes and looks may end leases too, of which others hear with
    /// the next end of leases.
    pub(super) fn check_pops_wait(&mut self) -> Checked {
        for _ in 0..ENDS_MAX {
            self.work(Work::EndLeases)?;
            self.settle(true)?;
            if self.check_nobody_waits().is_ok() {
                return Ok(());
            }
        }
        self.check_nobody_waits()
    }

    fn check_nobody_waits(&self) -> Checked {
        let Some(node) = self.node.as_ref().filter(|_| self.setup.pops.is_some() && !self.is_muted) else {
            return Ok(());
        };
        for ((connection, number), taken) in &self.taken {
            let Asked::Pops(asked) = &taken.asked else { continue };
            let Some(popping) = asked.waits().filter(|_| !self.connections[*connection].is_stalled) else { continue };
            for queue in (0..QUEUES).filter(|queue| popping.queue.is_none_or(|wanted| wanted == *queue)) {
                let Some(lane) = node.broker.lanes.lane(popping.topic, popping.group, queue) else { continue };
                let counts = lane.counts();
                // While somebody has messages of a queue, who pops in order waits.
                let is_held = popping.attempt.is_some() && counts.leased > 0;
                check(counts.ready == 0 || is_held, Rule::WaitingPopsAreWoken, || {
                    format!("connection {connection} #{number} {popping:?}: queue {queue} has {counts:?}")
                })?;
            }
        }
        Ok(())
    }

    /// Each group pops until there is nothing any more, and acknowledges all of it.
    pub(super) fn pop_everything(&mut self) -> Checked {
        if self.setup.pops.is_none() {
            return Ok(());
        }
        let mut empty_rounds = 0;
        for _ in 0..ROUNDS_MAX {
            empty_rounds += 1;
            self.work(Work::EndLeases)?;
            for (group, popper) in [(0, 0), (1, 2)] {
                for (topic, queue) in TOPICS.into_iter().flat_map(|topic| (0..QUEUES).map(move |queue| (topic, queue)))
                {
                    if self.pop_all_of(group, popper, (topic, queue))? {
                        empty_rounds = 0;
                    }
                }
            }
            if empty_rounds == EMPTY_ROUNDS {
                break;
            }
            self.pass(ROUND_MS);
        }
        for work in [Work::Own(Own::KeepChanges), Work::Write, Work::Sync] {
            self.work(work)?;
        }
        self.settle(true)
    }

    /// A group pops a queue; whether there was something.
    fn pop_all_of(
        &mut self,
        group: usize,
        popper: usize,
        (topic, queue): (&'static str, u32),
    ) -> Result<bool, crate::oracle::Violation> {
        let is_ordered = self.setup.pops.is_some_and(|pops| pops.ordered[group] == 100);
        let attempt = is_ordered.then_some(0);
        let popping = Popping { attempt, invisible_ms: HELD_MS, ..everything(POP_GROUPS[group], topic, Some(queue)) };
        let (mut was_given, mut failures) = (false, 0);
        while failures < FAILURES_MAX {
            let before = self.last_code(popper, Asked::Pops(PopAsked::Pop(popping)))?;
            match before {
                Some(0) => {
                    was_given = true;
                    let acks = self.ack_all(popper, 0);
                    acks.into_iter().try_for_each(|asked| self.last_code(popper, asked).map(drop))?;
                }
                Some(19) => break,
                _ => failures += 1,
            }
        }
        Ok(was_given)
    }

    /// Asks, and has the code of the answer at once.
    fn last_code(&mut self, popper: usize, asked: Asked) -> Result<Option<i32>, crate::oracle::Violation> {
        self.last_code = None;
        self.ask(FIRST_POPPER + popper, asked);
        self.arrive(FIRST_POPPER + popper, usize::MAX);
        self.settle(true)?;
        Ok(self.last_code)
    }
}

/// All of a topic or queue.
const fn everything(group: &'static str, topic: &'static str, queue: Option<u32>) -> Popping {
    Popping { group, topic, queue, count: 32, invisible_ms: 0, wait_ms: 0, attempt: None, tag: None }
}

fn joining(popper: usize) -> Asked {
    Asked::Heartbeat { client: CLIENTS[popper], group: POP_GROUPS[POPPERS[popper]], topics: &TOPICS }
}

/// The messages of an answer.
fn given(popping: &Popping, reply: &Reply) -> Vec<Held> {
    let starts = reply.fields.get("startOffsetInfo").map(String::as_str).unwrap_or_default();
    let starts: BTreeMap<_, _> = start_offsets(starts).unwrap_or_default();
    let number = |name: &str| reply.number(name).unwrap_or_default();
    let name = (number("popTime"), number("reviveQid") as i32);
    let records = record::split(&reply.body).filter_map(|bytes| Record::decode(bytes).ok());
    let held = records.map(|record| {
        let start =
            starts.iter().find(|(queue, _)| queue.queue_id == record.queue.0 as i32).map_or(0, |(_, start)| *start);
        Held {
            group: popping.group,
            queue: (popping.topic, record.queue.0),
            offset: record.queue_offset.0,
            start_offset: start as u64,
            name,
            invisible_ms: number("invisibleTime"),
        }
    });
    held.collect()
}
