//! What brokers that take turns over one directory have answered: written down as it is done, and asked of the next one.
//!
//! Each turn makes, changes and removes topics and groups (of other turns too), commits offsets, forwards and back, and sends messages,
//! some of them delayed so that they become due in the next turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use format::record::Record;
use serde_json::Value;
use wire::rocketmq::code::{request, response};

use crate::connection::Connection;

/// Messages that a new topic gets.
const COUNT: u64 = 600;
/// Messages that a topic of an earlier turn gets.
const FEW: u64 = 100;
/// Where delayed messages go.
const LATER: &str = "later";
const DELAYED_EACH: u64 = 5;
/// Levels of 5 s and 10 s.
const DELAY_LEVELS: [u32; 2] = [2, 3];
/// All that a name may consist of, and what other readers of JSON take for something else.
const ODD_NAMES: [&str; 5] = ["%a|b_c-D9", "-", "null", "true", "007"];
/// A broker that has just started may still deliver and index.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct TopicNotes {
    queues: u64,
    messages: u64,
}

/// The notes.
#[derive(Debug, Default)]
pub struct Ledger {
    turn: usize,
    topics: BTreeMap<String, TopicNotes>,
    removed_topics: BTreeSet<String>,
    /// Tries of each group.
    groups: BTreeMap<String, u64>,
    removed_groups: BTreeSet<String>,
    /// By topic, group and queue.
    offsets: BTreeMap<(String, String, u64), u64>,
    delayed: u64,
    /// Messages with a key and a tag, those of removed topics among them.
    keys: u64,
}

fn body_of(topic: &str, number: u64) -> String {
    format!("{topic}:{number}:{}", "b".repeat(number as usize * 7 % 1900))
}

fn key_of(topic: &str, number: u64) -> String {
    format!("{topic}-{number}")
}

impl Ledger {
    /// Does a turn with the broker at `address`.
    pub fn take_turn(&mut self, address: &str) {
        let mut connection = Connection::open(address);
        let turn = self.turn;
        let before = turn.checked_sub(1);
        connection.make_topic(LATER, 1);
        self.put_topic(&mut connection, &format!("made-{turn}"), 3);
        self.put_topic(&mut connection, &format!("leaves-in-the-next-{turn}"), 2);
        self.put_topic(&mut connection, &format!("leaves-at-once-{turn}"), 2);
        self.send(&mut connection, &format!("made-{turn}"), COUNT);
        self.send(&mut connection, &format!("leaves-in-the-next-{turn}"), FEW);
        self.send(&mut connection, &format!("leaves-at-once-{turn}"), FEW);
        self.topics.insert(format!("came-{turn}"), TopicNotes { queues: 4, messages: 0 });
        self.send(&mut connection, &format!("came-{turn}"), FEW);
        for group in ["kept", "changed", "leaves-in-the-next", "leaves-at-once"] {
            self.put_group(&mut connection, &format!("{group}-{turn}"), 5);
        }
        for name in ODD_NAMES {
            self.put_topic(&mut connection, &format!("{name}{turn}"), 1);
            self.send(&mut connection, &format!("{name}{turn}"), 1);
            self.put_group(&mut connection, &format!("{name}{turn}"), 1);
            self.commit(&mut connection, &format!("{name}{turn}"), &format!("{name}{turn}"), 0, 1);
        }
        for (queue, offset) in [(0, COUNT / 3), (1, 77)] {
            self.commit(&mut connection, &format!("made-{turn}"), &format!("kept-{turn}"), queue, offset);
        }
        self.commit(&mut connection, &format!("leaves-at-once-{turn}"), &format!("kept-{turn}"), 1, 7);
        self.commit(&mut connection, &format!("came-{turn}"), &format!("leaves-at-once-{turn}"), 1, 7);
        self.remove_topic(&mut connection, &format!("leaves-at-once-{turn}"));
        self.remove_group(&mut connection, &format!("leaves-at-once-{turn}"));
        if let Some(before) = before {
            self.put_topic(&mut connection, &format!("made-{before}"), 3 + turn as u64);
            self.send(&mut connection, &format!("made-{before}"), FEW);
            self.send(&mut connection, &format!("came-{before}"), FEW);
            self.put_group(&mut connection, &format!("changed-{before}"), 7);
            self.commit(&mut connection, &format!("made-{before}"), &format!("kept-{before}"), 0, COUNT / 3 + 1);
            self.commit(&mut connection, &format!("made-{before}"), &format!("kept-{before}"), 1, 5);
            self.commit(&mut connection, &format!("made-{before}"), &format!("kept-{turn}"), 1, 9);
            self.remove_topic(&mut connection, &format!("leaves-in-the-next-{before}"));
            self.remove_group(&mut connection, &format!("leaves-in-the-next-{before}"));
        }
        self.turn += 1;
    }

    fn put_topic(&mut self, connection: &mut Connection, topic: &str, queues: u64) {
        connection.make_topic(topic, queues as u32);
        self.topics.entry(topic.to_owned()).or_default().queues = queues;
    }

    fn remove_topic(&mut self, connection: &mut Connection, topic: &str) {
        let answer = connection.call(request::DELETE_TOPIC_IN_BROKER, &[("topic", topic)], &[]);
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        self.topics.remove(topic);
        self.offsets.retain(|(of, ..), _| of != topic);
        self.removed_topics.insert(topic.to_owned());
    }

    fn put_group(&mut self, connection: &mut Connection, group: &str, tries: u64) {
        let settings = format!(r#"{{"groupName":"{group}","retryMaxTimes":{tries}}}"#);
        let answer = connection.call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], settings.as_bytes());
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        self.groups.insert(group.to_owned(), tries);
    }

    fn remove_group(&mut self, connection: &mut Connection, group: &str) {
        // Official brokers of 4.9 and 5.x name the second field differently.
        let fields = [("groupName", group), ("cleanOffset", "true"), ("removeOffset", "true")];
        let answer = connection.call(request::DELETE_SUBSCRIPTION_GROUP, &fields, &[]);
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        self.groups.remove(group);
        self.offsets.retain(|(_, by, _), _| by != group);
        self.removed_groups.insert(group.to_owned());
    }

    fn commit(&mut self, connection: &mut Connection, topic: &str, group: &str, queue: u64, offset: u64) {
        let (number, text) = (queue.to_string(), offset.to_string());
        let fields = [("consumerGroup", group), ("topic", topic), ("queueId", &number), ("commitOffset", &text)];
        let answer = connection.call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]);
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        self.offsets.insert((topic.to_owned(), group.to_owned(), queue), offset);
    }

    /// Sends messages with keys to the first two queues of a topic in turn.
    fn send(&mut self, connection: &mut Connection, topic: &str, count: u64) {
        let notes = self.topics.get_mut(topic).expect("a topic of ours");
        let used = notes.queues.min(2);
        for number in notes.messages..notes.messages + count {
            let properties = format!("KEYS\u{1}{}\u{2}TAGS\u{1}t{}\u{2}", key_of(topic, number), number % 3);
            let body = body_of(topic, number);
            let answer = connection.send_message(topic, (number % used) as i32, &properties, body.as_bytes());
            assert_eq!((answer.code, answer.field("queueOffset")), (0, &*(number / used).to_string()), "{answer:?}");
        }
        notes.messages += count;
        self.keys += count;
    }

    /// Sends messages that become due when the next broker has the directory.
    pub fn leave_delayed(&mut self, address: &str) {
        let mut connection = Connection::open(address);
        for level in DELAY_LEVELS {
            for _ in 0..DELAYED_EACH {
                let answer = connection.send_message(
                    LATER,
                    0,
                    &format!("DELAY\u{1}{level}\u{2}"),
                    self.delayed.to_string().as_bytes(),
                );
                assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
                self.delayed += 1;
            }
        }
    }

    /// All of it is as it was answered. A topic whose messages are listed again from the log after a crash may be back although it was
    /// removed: `may_be_back`.
    pub fn verify(&self, address: &str, may_be_back: bool) {
        let mut connection = Connection::open(address);
        self.verify_tables(&mut connection, may_be_back);
        for ((topic, group, queue), offset) in &self.offsets {
            let number = queue.to_string();
            let fields = [("consumerGroup", &**group), ("topic", topic), ("queueId", &number)];
            let answer = connection.call(request::QUERY_CONSUMER_OFFSET, &fields, &[]);
            assert_eq!(answer.field("offset"), offset.to_string(), "{group} in {topic} {queue}: {answer:?}");
        }
        for (topic, notes) in &self.topics {
            verify_messages(&mut connection, topic, notes);
        }
        self.verify_delayed(&mut connection);
    }

    fn verify_tables(&self, connection: &mut Connection, may_be_back: bool) {
        let mut table_of = |code, member: &str| -> Value {
            let answer = connection.call(code, &[], &[]);
            format::loose_json::parse(&answer.body).expect("JSON")[member].take()
        };
        let topics = table_of(request::GET_ALL_TOPIC_CONFIG, "topicConfigTable");
        for (topic, notes) in &self.topics {
            assert_eq!(topics[topic]["writeQueueNums"], notes.queues, "{topic}: {}", topics[topic]);
        }
        let groups = table_of(request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG, "subscriptionGroupTable");
        for (group, tries) in &self.groups {
            assert_eq!(groups[group]["retryMaxTimes"], *tries, "{group}: {}", groups[group]);
        }
        let back: Vec<_> = self.removed_groups.iter().filter(|group| groups.get(group).is_some()).collect();
        assert!(back.is_empty(), "removed and there again: {back:?}");
        let back: Vec<_> = self.removed_topics.iter().filter(|topic| topics.get(topic).is_some()).collect();
        assert!(may_be_back || back.is_empty(), "removed and there again: {back:?}");
    }

    /// Each delayed message has come once, unchanged, and none twice.
    fn verify_delayed(&self, connection: &mut Connection) {
        if self.delayed == 0 {
            return;
        }
        let deadline = Instant::now() + SETTLED_WITHIN;
        while connection.queue_end(LATER, 0) < self.delayed {
            assert!(Instant::now() < deadline, "delayed messages do not come");
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut came = Vec::new();
        connection.read_queue(LATER, 0, 0, |record| {
            came.push(std::str::from_utf8(record.body).expect("text").parse::<u64>().expect("a number"));
        });
        came.sort_unstable();
        assert_eq!(came, (0..self.delayed).collect::<Vec<_>>());
    }

    /// Messages in queues: those sent, and each delayed one as often as it was stored.
    pub fn entries(&self) -> u64 {
        self.topics.values().map(|notes| notes.messages).sum::<u64>() + 2 * self.delayed
    }

    /// Messages that were sent with a key and a tag.
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// Topics that were removed.
    pub const fn removed_topics(&self) -> &BTreeSet<String> {
        &self.removed_topics
    }

    /// Waits until the documents in the data directory say all of it: after a kill an official broker knows no more than they do.
    pub fn wait_until_exported(&self, data: &Path, limit: Duration) {
        let deadline = Instant::now() + limit;
        while let Some(what) = self.lacking_in_documents(data) {
            assert!(Instant::now() < deadline, "the documents in {} lack {what}", data.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn lacking_in_documents(&self, data: &Path) -> Option<String> {
        let table = |name: &str, member: &str| -> Value {
            let text = std::fs::read(data.join("config").join(name)).unwrap_or_default();
            // Official brokers write keys that are numbers without quotation marks.
            let document = format::loose_json::parse(&text).unwrap_or_default();
            document[member].clone()
        };
        let topics = table("topics.json", "topicConfigTable");
        let lacking = self.topics.iter().find(|(topic, notes)| topics[topic]["writeQueueNums"] != notes.queues);
        let groups = table("subscriptionGroup.json", "subscriptionGroupTable");
        let of_group = |(group, tries): &(&String, &u64)| groups[group]["retryMaxTimes"] != **tries;
        let offsets = table("consumerOffset.json", "offsetTable");
        let of_offset = |((topic, group, queue), offset): &(&(String, String, u64), &u64)| {
            offsets[format!("{topic}@{group}")][queue.to_string()] != **offset
        };
        let delay = table("delayOffset.json", "offsetTable");
        let delivered: u64 = DELAY_LEVELS.iter().filter_map(|level| delay[level.to_string()].as_u64()).sum();
        lacking
            .map(|(topic, _)| topic.clone())
            .or_else(|| self.groups.iter().find(of_group).map(|(group, _)| group.clone()))
            .or_else(|| {
                let still_there = self.removed_groups.iter().find(|group| !groups[group].is_null());
                still_there.map(|group| format!("that {group} is removed"))
            })
            .or_else(|| self.offsets.iter().find(of_offset).map(|(of, offset)| format!("{of:?}: {offset}")))
            .or_else(|| {
                (delivered < self.delayed).then(|| format!("delayed messages: {delivered} of {}", self.delayed))
            })
    }
}

fn verify_messages(connection: &mut Connection, topic: &str, notes: &TopicNotes) {
    let used = notes.queues.min(2);
    for queue in 0..notes.queues {
        let count = if queue < used { notes.messages / used } else { 0 };
        assert_eq!(connection.queue_end(topic, queue as u32), count, "{topic} {queue}");
        let end = connection.read_queue(topic, queue as u32, 0, |record| {
            let number = record.queue_offset.0 * used + queue;
            assert_eq!(record.body, body_of(topic, number).as_bytes());
            assert_eq!(record.property("KEYS"), Some(&*key_of(topic, number)));
        });
        assert_eq!(end, count, "{topic} {queue}");
    }
    for number in [0, notes.messages / 2, notes.messages.saturating_sub(1)] {
        let deadline = Instant::now() + SETTLED_WITHIN;
        let found = loop {
            let found = connection.messages_by_key(topic, &key_of(topic, number));
            if found.code == response::SUCCESS || Instant::now() > deadline {
                break found;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(found.code, response::SUCCESS, "{topic} {number}: {}", found.remark);
        // An official broker may index the newest message again after a kill.
        let mut rest = &found.body[..];
        while !rest.is_empty() {
            let record = Record::decode(rest).expect("a record");
            assert_eq!(record.body, body_of(topic, number).as_bytes(), "{topic} {number}");
            rest = &rest[record.size..];
        }
    }
}
