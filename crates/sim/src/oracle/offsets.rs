//! Offsets that groups commit and administrators reset.

use std::collections::BTreeMap;

use format::loose_json;
use serde_json::Value;

use super::promise::Kept;
use super::tried::Tried;
use super::{Checked, Rule, Stopped, Violation, check};
use crate::connection::Reply;
use crate::node::Bounds;
use crate::request::Queue;

/// What an offset may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Committed {
    /// Nothing is committed.
    Nothing,
    /// This.
    At(i64),
    /// A request says what, and was not answered.
    Unknown,
}

type Key = (&'static str, Queue);

/// All offsets.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    tried: BTreeMap<Key, Tried<Committed>>,
    /// Those of which a group has yet to hear that they were reset, and by which request: until then its commits are void.
    unheard: BTreeMap<Key, u64>,
}

impl Offsets {
    fn of(&mut self, group: &'static str, queue: Queue) -> &mut Tried<Committed> {
        self.tried.entry((group, queue)).or_insert_with(|| Tried::new(Committed::Nothing))
    }

    pub(super) fn committed(&mut self, group: &'static str, queue: Queue, number: u64, offset: i64) {
        self.of(group, queue).try_out(number, Committed::At(offset));
    }

    pub(super) fn confirm(&mut self, group: &'static str, queue: Queue, number: u64, kept: Kept) {
        if !self.unheard.contains_key(&(group, queue)) {
            self.of(group, queue).confirm(number, kept);
        }
    }

    pub(super) fn sure(&mut self, group: &'static str, queue: Queue) -> u64 {
        self.of(group, queue).sure()
    }

    pub(super) fn reset(&mut self, group: &'static str, topic: &'static str, number: u64) {
        for queue in 0..crate::roster::QUEUES {
            self.of(group, (topic, queue)).try_out(number, Committed::Unknown);
            self.unheard.insert((group, (topic, queue)), number);
        }
    }

    pub(super) fn reset_answered(
        &mut self,
        group: &'static str,
        topic: &'static str,
        number: u64,
        reply: &Reply,
        kept: Kept,
    ) -> Checked {
        for (queue, offset) in reset_offsets(reply)? {
            let tried = self.of(group, (topic, queue));
            tried.settle(number, Committed::At(offset));
            tried.confirm(number, kept);
        }
        Ok(())
    }

    /// A pull that was taken as number `number` told the group of a reset.
    pub(super) fn heard_of_reset(&mut self, group: &'static str, queue: Queue, number: u64) {
        if self.unheard.get(&(group, queue)).is_some_and(|reset| *reset < number) {
            self.unheard.remove(&(group, queue));
        }
    }

    pub(super) fn read(&mut self, group: &'static str, queue: Queue, sure: u64, reply: &Reply) -> Checked {
        let found = if reply.code == 0 { reply.number("offset") } else { None };
        if !matches!(reply.code, 0 | 22) {
            return Ok(());
        }
        let tried = self.of(group, queue);
        let fits = |value: &Committed| match value {
            // Where nothing is committed a young queue begins at 0.
            Committed::Nothing => found.is_none_or(|offset| offset == 0),
            Committed::At(offset) => found == Some(*offset),
            Committed::Unknown => true,
        };
        let possible: Vec<_> = tried.possible(sure).copied().collect();
        check(possible.iter().any(fits), Rule::CommitsHold, || {
            format!("{group} is at {found:?} in {queue:?}, and may be at {possible:?}")
        })
    }

    pub(super) fn saved(&mut self) {
        self.tried.values_mut().for_each(Tried::note_saved);
    }

    pub(super) fn written(&mut self) {
        self.tried.values_mut().for_each(Tried::note_written);
    }

    pub(super) fn synced(&mut self) {
        self.tried.values_mut().for_each(Tried::note_synced);
    }

    /// What is beyond its queue's end comes back to it.
    pub(super) fn restarted(&mut self, how: Stopped, bounds: &Bounds) {
        self.unheard.clear();
        for ((_, (topic, queue)), tried) in &mut self.tried {
            let end = bounds.get(&((*topic).to_owned(), *queue)).map(|(_, end)| *end as i64);
            tried.restart(how, |value| match (value, end) {
                (Committed::At(offset), Some(end)) => Committed::At((*offset).min(end)),
                (other, _) => *other,
            });
        }
    }
}

/// Where the queues of a topic were reset to.
pub(super) fn reset_offsets(reply: &Reply) -> Result<BTreeMap<u32, i64>, Violation> {
    let body = loose_json::parse(&reply.body).unwrap_or_default();
    let table = body.get("offsetTable").and_then(Value::as_object);
    let table =
        table.ok_or_else(|| Violation::of(Rule::AnswersAreWhole, format!("a reset is answered with {reply}")))?;
    let queue_in = |text: &str| loose_json::parse(text.as_bytes()).ok()?.get("queueId")?.as_u64();
    Ok(table.iter().filter_map(|(queue, offset)| Some((queue_in(queue)? as u32, offset.as_i64()?))).collect())
}
