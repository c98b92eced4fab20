//! Clients that remember: who reads by itself, and the members of a group that share queues among themselves.

use std::collections::{BTreeMap, BTreeSet};

use format::record::{self, Record};
use serde_json::Value;

use crate::connection::Reply;
use crate::request::{Asked, Pulling, Queue, number_in};
use crate::roster::{GROUP, MEMBERS, QUEUES, RETRY_TOPIC, TOPICS};

/// Topics the group wants, and their queues.
const WANTED: [&str; 3] = [TOPICS[0], TOPICS[1], RETRY_TOPIC];

/// How long its pulls may wait.
const WAIT_MS: u64 = 15_000;

/// One in so many messages is not consumed at the first try, one of so many at no try.
const FAILS_ONE_IN: u64 = 5;

/// Who reads by itself.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    next: BTreeMap<Queue, i64>,
}

impl Reader {
    /// Where it is in a queue.
    pub(crate) fn next(&self, queue: Queue) -> i64 {
        self.next.get(&queue).copied().unwrap_or_default()
    }

    /// Takes in an answer.
    pub(crate) fn hear(&mut self, asked: &Asked, reply: &Reply) {
        if let (Asked::Pull(pulling), 0 | 19 | 20 | 21) = (asked, reply.code)
            && let Some(next) = reply.number("nextBeginOffset")
        {
            self.next.insert(pulling.queue, next);
        }
    }
}

/// How far a member is in a queue that it has.
#[derive(Debug, Default)]
struct Cursor {
    /// Where it is next, once it was told.
    next: Option<i64>,
    is_asking: bool,
    is_pulling: bool,
}

/// A member of the group.
#[derive(Debug)]
pub(crate) struct Member {
    client: &'static str,
    is_in: bool,
    cursors: BTreeMap<Queue, Cursor>,
    inbox: Vec<(Option<Asked>, Reply)>,
}

impl Member {
    pub(crate) fn new(number: usize) -> Self {
        Self { client: MEMBERS[number], is_in: false, cursors: BTreeMap::new(), inbox: Vec::new() }
    }

    /// Its connection is another now: it has to join again.
    pub(crate) fn reconnected(&mut self) {
        self.is_in = false;
        self.cursors.clear();
        self.inbox.clear();
    }

    /// It was told something.
    pub(crate) fn hear(&mut self, asked: Option<Asked>, reply: Reply) {
        self.inbox.push((asked, reply));
    }

    /// It leaves.
    pub(crate) fn leave(&mut self) -> Asked {
        self.reconnected();
        Asked::Leave { client: self.client, group: GROUP }
    }

    /// Takes in what it was told, notes in `consumed` what it has consumed, and says what it asks next.
    pub(crate) fn turn(&mut self, consumed: &mut BTreeSet<u64>) -> Vec<Asked> {
        let mut asks = Vec::new();
        if !self.is_in {
            self.is_in = true;
            asks.push(Asked::Heartbeat { client: self.client, group: GROUP, topics: &WANTED });
            asks.push(Asked::Members(GROUP));
        }
        for (asked, reply) in std::mem::take(&mut self.inbox) {
            match asked {
                // Somebody came or went.
                None => asks.push(Asked::Members(GROUP)),
                Some(Asked::Members(_)) => self.share(&reply),
                Some(Asked::Committed { queue, .. }) => self.begin(queue, &reply),
                Some(Asked::Pull(pulling)) => self.consume(&pulling, &reply, consumed, &mut asks),
                Some(_) => {}
            }
        }
        for (queue, cursor) in &mut self.cursors {
            match cursor.next {
                None if !cursor.is_asking => {
                    cursor.is_asking = true;
                    asks.push(Asked::Committed { group: GROUP, queue: *queue });
                }
                Some(offset) if !cursor.is_pulling => {
                    cursor.is_pulling = true;
                    asks.push(Asked::Pull(Pulling {
                        group: GROUP,
                        queue: *queue,
                        offset,
                        count: 8,
                        wait_ms: WAIT_MS,
                        commit: None,
                    }));
                }
                _ => {}
            }
        }
        asks
    }

    /// Takes its share of the queues: every so manyth of them, by its position among the members.
    fn share(&mut self, reply: &Reply) {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let listed = body.get("consumerIdList").and_then(Value::as_array);
        let mut members: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
        members.sort_unstable();
        let Some(own) = members.iter().position(|member| *member == self.client) else { return };
        let queues = |topic: &'static str| if topic == RETRY_TOPIC { 1 } else { QUEUES };
        let queues = WANTED.iter().flat_map(|topic| (0..queues(topic)).map(move |queue| (*topic, queue)));
        let shared: BTreeSet<Queue> =
            queues.enumerate().filter(|(number, _)| number % members.len() == own).map(|(_, queue)| queue).collect();
        self.cursors.retain(|queue, _| shared.contains(queue));
        shared.into_iter().for_each(|queue| {
            self.cursors.entry(queue).or_default();
        });
    }

    fn begin(&mut self, queue: Queue, reply: &Reply) {
        let Some(cursor) = self.cursors.get_mut(&queue) else { return };
        cursor.is_asking = false;
        cursor.next = match reply.code {
            0 => reply.number("offset"),
            22 => Some(0),
            _ => None,
        };
    }

    fn consume(&mut self, pulling: &Pulling, reply: &Reply, consumed: &mut BTreeSet<u64>, asks: &mut Vec<Asked>) {
        let Some(cursor) = self.cursors.get_mut(&pulling.queue) else { return };
        cursor.is_pulling = false;
        // An answer to a pull of before it lost the queue and got it again.
        if cursor.next != Some(pulling.offset) || !matches!(reply.code, 0 | 19 | 20 | 21) {
            return;
        }
        let Some(next) = reply.number("nextBeginOffset") else { return };
        cursor.next = Some(next);
        if reply.code != 0 {
            return;
        }
        for bytes in record::split(&reply.body) {
            let Ok(record) = Record::decode(bytes) else { continue };
            let Some(number) = number_in(record.body) else { continue };
            consumed.insert(number);
            if let Some(level) = fails(number, record.reconsume_times) {
                asks.push(Asked::SendBack {
                    group: GROUP,
                    log_offset: record.log_offset.0,
                    number,
                    tries: record.reconsume_times,
                    level,
                });
            }
        }
        asks.push(Asked::Commit { group: GROUP, queue: pulling.queue, offset: next, is_one_way: false });
    }
}

/// The level at which a message is given back, if it is: some at the first try, some of these until they are given up.
const fn fails(number: u64, tries: i32) -> Option<i32> {
    if !number.is_multiple_of(FAILS_ONE_IN) {
        return None;
    }
    match tries {
        0 => Some((number % 3) as i32 + 1),
        1 if number.is_multiple_of(2 * FAILS_ONE_IN) => Some(1),
        2 => Some(-1),
        _ => None,
    }
}
