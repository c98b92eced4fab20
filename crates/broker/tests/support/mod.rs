//! A broker over a scratch directory, driven step by step with a clock of the test's own.

#![allow(dead_code, clippy::expect_used, clippy::panic, reason = "support of several tests, each of which uses a part")]

pub mod handing_out;
pub mod pair;
pub mod world;

use std::path::Path;
use std::sync::Arc;

use base::{Now, QueueId, Refusal, Timestamp};
use broker::{Broker, Fetch, FetchStatus, Fetched, Filter, Message, Options};
use format::index_rules::IndexRules;
use format::record::Record;
use testkit::{ManualHost, broker_options, store_options};

/// A broker and the time.
pub struct Bench {
    pub broker: Broker,
    pub now: Now,
}

/// Opens a broker on `directory`, with two delay levels of 1 s and 5 s unless told otherwise.
pub fn open(directory: &Path, now: Now) -> Bench {
    open_with(directory, now, vec![1000, 5000], |_| ())
}

/// How a store of that directory is laid out.
pub fn layout(directory: &Path, delays_ms: Vec<u64>) -> storage::Options {
    storage::Options { index_rules: IndexRules::new(delays_ms), ..store_options(directory) }
}

/// Opens a broker with changed options.
pub fn open_with(directory: &Path, now: Now, delays_ms: Vec<u64>, change: impl FnOnce(&mut Options)) -> Bench {
    open_on(layout(directory, delays_ms), now, change)
}

/// Opens a broker with changed options on a store of one's own.
pub fn open_on(layout: storage::Options, now: Now, change: impl FnOnce(&mut Options)) -> Bench {
    let mut options = broker_options();
    change(&mut options);
    let broker = testkit::open_broker(options, layout, Arc::new(ManualHost::default()), now).expect("the broker opens");
    Bench { broker, now }
}

/// A message as tests send it.
pub fn message<'a>(body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    Message {
        queue: Some(QueueId(0)),
        body,
        properties,
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(1),
        born_host: "10.0.0.1:5000".parse().expect("address"),
        delivery_count: 0,
    }
}

impl Bench {
    /// Publishes to a topic that is made if need be; returns the place in the log.
    pub fn publish(&self, topic: &str, message: &Message<'_>) -> Result<base::LogOffset, Refusal> {
        let topic = self.broker.catalog.topic_for_publish(topic, "TBW102", 4, self.now)?;
        let mut batch = self.broker.publisher.begin_batch(0, self.now);
        self.broker.publisher.add(&mut batch, &topic, message)?;
        let appended = self.broker.publisher.append(batch, self.now)?;
        self.broker.store().write_staged().expect("writes");
        Ok(appended.positions(0..1).next().expect("one message").log_offset)
    }

    /// Everything a group may read in a queue from an offset on.
    pub fn fetch(&self, topic: &str, queue: u32, offset: i64, filter: Filter) -> Fetched {
        let fetch = Fetch {
            topic: &self.broker.catalog.topic(topic).expect("the topic is there"),
            queue: QueueId(queue),
            offset,
            count_max: 1000,
            size_max: 1 << 20,
            filter: &filter,
        };
        self.broker.fetcher.fetch(&fetch, usize::MAX).expect("allowed")
    }

    /// Bodies in a queue from its start.
    pub fn bodies(&self, topic: &str, queue: u32) -> Vec<String> {
        let fetched = self.fetch(topic, queue, 0, Filter::All);
        if fetched.status != FetchStatus::Found {
            return Vec::new();
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(Record::decode(bytes).expect("a record").body).into_owned();
        fetched.records().map(text).collect()
    }

    /// Lets time pass and delivers what came due.
    pub fn advance(&mut self, milliseconds: u64) {
        self.now = self.now.plus_ms(milliseconds);
        self.broker.delivery.deliver_due(self.now);
        self.broker.store().write_staged().expect("writes");
    }
}
