//! The end of a story: everything that was promised for later has its time, and everything is looked at.

use std::collections::BTreeSet;

use broker::Work as Own;

use super::World;
use crate::fault::Contents;
use crate::node::Work;
use crate::oracle::{Checked, Rule, Scene, check};
use crate::request::{Asked, Pulling, Queue};
use crate::roster::{
    AUDITOR, BRIEF_TOPIC, DEAD_TOPIC, FIRST_MEMBER, MEMBERS, POP_DEAD_TOPICS, QUEUES, RETRY_TOPIC, TOPICS,
};

/// How often time passes in the end, and how much: all delays come to pass, and whatever waits a while.
const LAST_ROUNDS: usize = 14;
const LAST_ROUND_MS: u64 = 5000;

/// Work that is done in each of these rounds; what makes room comes first.
const LAST_WORK: [Work; 12] = [
    Work::EndLeases,
    Work::Own(Own::PrepareSegment),
    Work::Write,
    Work::Own(Own::FinishRemovals),
    Work::DeliverDelayed,
    Work::Write,
    Work::Sync,
    Work::IndexKeys,
    Work::Own(Own::FlushEntries),
    Work::Own(Own::KeepChanges),
    Work::Own(Own::SaveDocuments),
    Work::Own(Own::Expire),
];

/// The group of who looks at everything.
const AUDITORS: &str = "auditors";

impl World {
    pub(super) fn finish(&mut self) -> Checked {
        self.mend(|sector| sector.contents == Contents::Records);
        self.set_room(None)?;
        if self.node()?.broker.durability.poisoned().is_some() {
            self.kill(None, 0)?;
        }
        // It has to be seen that there is room again.
        self.work(Work::Own(Own::Retention))?;
        self.connections.iter_mut().for_each(|connection| connection.is_stalled = false);
        self.check_routes()?;
        for _ in 0..LAST_ROUNDS {
            for work in LAST_WORK {
                self.work(work)?;
                self.arrive_all(usize::MAX);
                self.settle(true)?;
            }
            for member in 0..MEMBERS.len() {
                let asks = self.members[member].turn(&mut self.consumed);
                asks.into_iter().for_each(|asked| self.ask(FIRST_MEMBER + member, asked));
            }
            self.arrive_all(usize::MAX);
            self.settle(true)?;
            self.look()?;
            self.pass(LAST_ROUND_MS);
        }
        self.settle(true)?;
        self.look()?;
        self.pop_everything()?;
        self.catch_up()?;
        self.settle(true)?;
        self.check_waiting()?;
        self.audit(&TOPICS.iter().copied().collect())?;
        let scene = self.scene();
        self.oracle.all_has_arrived(&scene)?;
        if self.setup.pops.is_some() {
            self.oracle.all_was_popped(&scene)?;
        }
        for topic in TOPICS.into_iter().filter(|topic| *topic != BRIEF_TOPIC) {
            // What was passed over once is not read again.
            let scene = Scene { unreadable: scene.once_unreadable.clone(), ..scene.clone() };
            let missed =
                self.oracle.expected_in(topic, &scene).into_iter().find(|number| !self.consumed.contains(number));
            check(missed.is_none(), Rule::GroupsConsumeEverything, || format!("m{missed:?} of {topic}"))?;
        }
        // The group that has looked at everything is news for the log too, and dead letters of the last pops have keys.
        self.work(Work::Write)?;
        self.work(Work::IndexKeys)?;
        self.leave_nothing()
    }

    /// Every request has its answer by now, but for pulls that wait in vain.
    fn check_waiting(&self) -> Checked {
        for ((connection, number), taken) in &self.taken {
            if let Asked::Pull(pulling) = &taken.asked {
                let has_message = self.oracle.has_message_from(pulling.queue, pulling.offset);
                check(!has_message, Rule::WaitingPullsAreWoken, || {
                    format!("connection {connection} #{number} {pulling:?}")
                })?;
            } else {
                let what = || format!("connection {connection} #{number} {:?}", taken.asked);
                check(false, Rule::RequestsAreAnswered, what)?;
            }
        }
        Ok(())
    }

    /// Reads every queue from its first message to its last, and finds messages of `by_key` by their keys.
    pub(super) fn audit(&mut self, by_key: &BTreeSet<&'static str>) -> Checked {
        let queues = TOPICS.into_iter().flat_map(|topic| (0..QUEUES).map(move |queue| (topic, queue)));
        let queues: Vec<Queue> = queues
            .chain([RETRY_TOPIC, DEAD_TOPIC].into_iter().chain(POP_DEAD_TOPICS).map(|topic| (topic, 0)))
            .collect();
        for queue in queues {
            self.read_all(queue)?;
        }
        for topic in by_key.iter().copied().filter(|topic| *topic != BRIEF_TOPIC) {
            for number in self.oracle.keys_of(topic, &self.scene()) {
                self.ask_now(Asked::FindKey { topic, number })?;
            }
        }
        Ok(())
    }

    fn read_all(&mut self, queue: Queue) -> Checked {
        let Some((mut offset, end)) = self.node()?.bounds().get(&(queue.0.to_owned(), queue.1)).copied() else {
            return Ok(());
        };
        while offset < end {
            let pulling =
                Pulling { group: AUDITORS, queue, offset: offset as i64, count: 32, wait_ms: 0, commit: None };
            let Some(next) = self.ask_now(Asked::Pull(pulling))?.filter(|next| *next > offset) else { break };
            offset = next;
        }
        let is_excused = self.sectors.iter().any(|sector| sector.contents == Contents::Entries);
        check(offset >= end || is_excused, Rule::RequestsAreAnswered, || {
            format!("{queue:?} cannot be read from {offset} on")
        })
    }

    /// Asks, and has the answer at once; gives where a pull goes on.
    fn ask_now(&mut self, asked: Asked) -> Result<Option<u64>, crate::oracle::Violation> {
        self.last_next = None;
        self.ask(AUDITOR, asked);
        self.arrive(AUDITOR, usize::MAX);
        self.settle(true)?;
        Ok(self.last_next)
    }

    /// Once all clients are gone nothing is held for any of them.
    fn leave_nothing(&mut self) -> Checked {
        for connection in std::mem::take(&mut self.connections) {
            check(!connection.is_busy(), Rule::RequestsAreAnswered, || format!("{connection:?}"))?;
            self.jobs.extend(connection.close(self.now));
        }
        while !self.jobs.is_empty() {
            self.run_job(0)?;
        }
        self.pass(200_000);
        self.work(Work::Own(Own::Expire))?;
        let broker = self.node()?.broker.clone();
        let (staged, waiting) = (broker.store().staged_size(), broker.metrics().fetch_waiting.get());
        check(staged == 0, Rule::MemoryIsBounded, || format!("{staged} bytes are staged"))?;
        check(waiting == 0, Rule::MemoryIsBounded, || format!("{waiting} pulls of nobody wait"))?;
        let syncs = broker.store().waiting_for_sync();
        check(syncs == 0, Rule::MemoryIsBounded, || format!("{syncs} wait for a sync that was done"))
    }
}
