//! Where a scenario is played: a broker, its clock, and clients that are made when they are first named.

use std::collections::BTreeMap;

use base::Now;
use base::Permission;
use format::document::{GroupDocument, TopicDocument};
use format::index_rules::IndexRules;
use wire::rocketmq::body::client::{LockBatch, MessageQueue};
use wire::rocketmq::code::request;
use wire::rocketmq::header::pull_flag;

use super::expectation;
use super::line::{Line, Options, duration, number, text};
use crate::bench::{Bench, START, Setup};
use crate::client::{Ask, Client, Reply, ask, heartbeat, pull, send};

/// As RocketMQ has them.
const DELAY_LEVELS_S: [u64; 18] =
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// How far the clock goes at once.
const TICK_MS: u64 = 1000;

fn set_up(setup: &mut Setup) {
    setup.store.index_rules = IndexRules::new(DELAY_LEVELS_S.map(|seconds| seconds * 1000).to_vec());
}

pub struct Stage {
    bench: Bench,
    now: Now,
    clients: BTreeMap<String, Client>,
    /// What came to each client that it has not been asked about: answers that had to wait, notices.
    heard: BTreeMap<String, Vec<Reply>>,
    /// The answers to the last step, until something is expected of them.
    answers: Option<Vec<Reply>>,
    /// Something was expected of them.
    is_checked: bool,
}

impl Stage {
    pub fn new() -> Self {
        let (clients, heard) = (BTreeMap::new(), BTreeMap::new());
        Self { bench: Bench::with(set_up), now: START, clients, heard, answers: None, is_checked: false }
    }

    pub fn play(&mut self, line: &Line) -> Result<(), String> {
        let words = line.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ["expect", expected @ ..] = &words[..] {
            let answers = self.answers.as_ref().ok_or("there is no answer")?;
            self.is_checked = true;
            return expectation::check(expected, answers);
        }
        self.check_answers("the step before")?;
        self.is_checked = false;
        self.answers = None;
        match &words[..] {
            ["topic", name, "queues", queues, rest @ ..] => self.make_topic(name, number(queues)? as u32, rest),
            ["group", name, rest @ ..] => self.make_group(name, rest),
            ["advance", count, unit] => {
                self.advance(duration(count, unit)?);
                Ok(())
            }
            ["kill"] => {
                self.kill();
                Ok(())
            }
            [client, "goes"] => {
                let gone = self.clients.remove(*client).ok_or("there is no such client")?;
                gone.close();
                self.heard.remove(*client);
                self.listen();
                Ok(())
            }
            [client, "hears"] => {
                self.answers = Some(self.heard.remove(*client).unwrap_or_default());
                Ok(())
            }
            [client, step @ ..] => {
                let asked = self.ask_of(client, step)?;
                self.ask(client, &asked);
                Ok(())
            }
            [] => Ok(()),
        }
    }

    pub fn end(&self) -> Result<(), String> {
        self.check_answers("the last step")
    }

    /// A step that is answered without a word about the answer would hide what went wrong.
    fn check_answers(&self, which: &str) -> Result<(), String> {
        match &self.answers {
            Some(_) if !self.is_checked => Err(format!("{which} says nothing of its answer")),
            _ => Ok(()),
        }
    }

    /// The request that a client's step means.
    fn ask_of(&self, client: &str, step: &[&str]) -> Result<Ask, String> {
        let of_queue = |code, group: &str, topic: &str, queue: i64| {
            let fields = [("consumerGroup", group), ("topic", topic), ("queueId", &queue.to_string())];
            ask(code, &fields)
        };
        Ok(match step {
            ["sends", body, "to", topic, rest @ ..] => sent(text(body)?, topic, rest)?,
            ["pulls", topic, "for", group, "from", offset, rest @ ..] => pulled(topic, group, number(offset)?, rest)?,
            ["commits", offset, "in", topic, "for", group, rest @ ..] => {
                let queue = Options::of(rest, &["queue"])?.number("queue", 0)?;
                of_queue(request::UPDATE_CONSUMER_OFFSET, group, topic, queue).with("commitOffset", number(offset)?)
            }
            ["asks", "where", group, "is", "in", topic, rest @ ..] => {
                let queue = Options::of(rest, &["queue"])?.number("queue", 0)?;
                of_queue(request::QUERY_CONSUMER_OFFSET, group, topic, queue).with("setZeroIfNotFound", false)
            }
            ["asks", "where", group, "begins", "in", topic] => {
                of_queue(request::QUERY_CONSUMER_OFFSET, group, topic, 0)
            }
            ["joins", group, "wanting", topic, rest @ ..] => {
                let options = Options::of(rest, &["tags", "version"])?;
                let tags = options.get("tags").map_or(Ok("*"), text)?;
                heartbeat(client, group, topic, tags, options.number("version", 1)?)
            }
            ["leaves", group] => ask(request::UNREGISTER_CLIENT, &[("clientID", client), ("consumerGroup", group)]),
            ["lists", "members", "of", group] => ask(request::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", group)]),
            ["locks", topic, "for", group, "queues", queues @ ..] => {
                locking(request::LOCK_BATCH_QUEUES, client, topic, group, queues)?
            }
            ["unlocks", topic, "for", group, "queues", queues @ ..] => {
                locking(request::UNLOCK_BATCH_QUEUES, client, topic, group, queues)?
            }
            ["gives", "back", offset, "of", topic, "for", group, rest @ ..] => {
                let level = Options::of(rest, &["level"])?.number("level", 0)?;
                let place = self.place(topic, number(offset)? as u64)?;
                let back = ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", group)]);
                back.with("offset", place).with("delayLevel", level)
            }
            ["resets", group, "in", topic, "to", offset] => {
                let reset = ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &[("topic", topic), ("group", group)]);
                reset.with("offset", number(offset)?).with("timestamp", 0).with("isForce", true)
            }
            ["removes", "topic", topic] => ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", topic)]),
            ["removes", "group", group] => {
                ask(request::DELETE_SUBSCRIPTION_GROUP, &[("groupName", group), ("cleanOffset", "true")])
            }
            ["asks", "request", code] => ask(number(code)? as i32, &[]),
            _ => return Err("no such step".to_owned()),
        })
    }

    fn ask(&mut self, name: &str, asked: &Ask) {
        let mut client = self.clients.remove(name).unwrap_or_else(|| {
            let mut client = self.bench.client();
            client.now = self.now;
            client
        });
        let came = client.give(std::slice::from_ref(asked));
        // Notices, and answers to what waited before, are heard.
        let is_answer = |reply: &Reply| reply.is_response && reply.opaque == client.last_opaque();
        let (answers, others): (Vec<_>, Vec<_>) = came.into_iter().partition(is_answer);
        self.answers = Some(answers);
        self.heard.entry(name.to_owned()).or_default().extend(others);
        self.clients.insert(name.to_owned(), client);
        self.listen();
    }

    /// Whatever has come to clients meanwhile.
    fn listen(&mut self) {
        for (name, client) in &mut self.clients {
            let came = client.hear();
            if !came.is_empty() {
                self.heard.entry(name.clone()).or_default().extend(came);
            }
        }
    }

    fn advance(&mut self, milliseconds: u64) {
        let mut left = milliseconds;
        while left > 0 {
            let tick = left.min(TICK_MS);
            left -= tick;
            self.now = self.now.plus_ms(tick);
            while self.bench.broker.delivery.deliver_due(self.now) == 0 {}
            self.bench.broker.expire(self.now);
            for (name, client) in &mut self.clients {
                let came = client.wait(tick);
                self.heard.entry(name.clone()).or_default().extend(came);
            }
        }
        self.listen();
    }

    /// The process is killed and started again; every connection is gone.
    fn kill(&mut self) {
        self.clients.clear();
        self.heard.clear();
        let bench = std::mem::replace(&mut self.bench, Bench::with(set_up));
        self.bench = bench.killed_with(|_| (), set_up);
    }

    fn make_topic(&mut self, name: &str, queues: u32, rest: &[&str]) -> Result<(), String> {
        let permission = match rest {
            [] => Permission::OPEN,
            ["read", "only"] => Permission { write: false, ..Permission::OPEN },
            ["write", "only"] => Permission { read: false, ..Permission::OPEN },
            _ => return Err("a topic is \"read only\" or \"write only\", or nothing is said".to_owned()),
        };
        self.bench.make_topic(name, TopicDocument::plain(queues, permission));
        Ok(())
    }

    fn make_group(&mut self, name: &str, rest: &[&str]) -> Result<(), String> {
        let plain = GroupDocument::default();
        let settings = match rest {
            ["disabled"] => GroupDocument { consume_enable: false, ..plain },
            ["tries", tries] => GroupDocument { retry_max_times: number(tries)? as i32, ..plain },
            _ => return Err("a group is \"disabled\", or has \"tries N\"".to_owned()),
        };
        self.bench.make_group(name, settings);
        Ok(())
    }

    /// Where the message at an offset of queue 0 is in the log.
    fn place(&self, topic: &str, offset: u64) -> Result<u64, String> {
        let queues = self.bench.broker.catalog.queues_of(topic).map_err(|refusal| refusal.to_string())?;
        let entries = queues[0].entries(base::QueueOffset(offset), 1).map_err(|refusal| refusal.to_string())?;
        Ok(entries.first().ok_or("there is no such message")?.log_offset.0)
    }
}

fn sent(body: &str, topic: &str, rest: &[&str]) -> Result<Ask, String> {
    let options = Options::of(rest, &["queue", "tag", "key", "level"])?;
    let mut properties = String::new();
    for (name, option) in [("TAGS", "tag"), ("KEYS", "key"), ("DELAY", "level")] {
        if let Some(value) = options.get(option) {
            properties.push_str(&format!("{name}\u{1}{value}\u{2}"));
        }
    }
    Ok(send(topic, body).with("e", options.number("queue", 0)?).with("i", properties))
}

fn pulled(topic: &str, group: &str, offset: i64, rest: &[&str]) -> Result<Ask, String> {
    let options = Options::of(rest, &["queue", "tags", "waiting"])?;
    let waiting_s = options.number("waiting", 0)?;
    let asked = pull(group, topic, offset).with("queueId", options.number("queue", 0)?);
    let flags = if waiting_s > 0 { pull_flag::SUSPEND } else { 0 };
    let asked = asked.with("suspendTimeoutMillis", waiting_s * 1000);
    match options.get("tags") {
        Some("joined") => Ok(asked.without("subscription").with("subVersion", 1).with("sysFlag", flags)),
        tags => {
            let tags = tags.map_or(Ok("*"), text)?;
            Ok(asked.with("subscription", tags).with("sysFlag", flags | pull_flag::SUBSCRIPTION))
        }
    }
}

fn locking(code: i32, client: &str, topic: &str, group: &str, queues: &[&str]) -> Result<Ask, String> {
    let queue = |word: &&str| {
        let (broker_name, topic) = ("broker-a".to_owned(), topic.to_owned());
        Ok(MessageQueue { broker_name, topic, queue_id: number(word)? as i32 })
    };
    let mq_set = queues.iter().map(queue).collect::<Result<_, String>>()?;
    let batch = LockBatch { consumer_group: group.to_owned(), client_id: client.to_owned(), mq_set };
    Ok(ask(code, &[]).body(serde_json::to_vec(&batch).expect("JSON")))
}
