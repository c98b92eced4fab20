//! A push consumer of the official client whose broker says whether it pops, and what was delivered to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::java::{BROKER_VERSION, result_of, start_program_with};
use crate::process::Process;

/// A delivery as its consumer wrote it down. Times are those of the machine's clock, in milliseconds.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Body.
    pub body: String,
    /// Queue and offset.
    pub place: (u32, u64),
    /// How often it was given to somebody before.
    pub reconsumed: u32,
    /// When the broker handed it out; 0 for what was pulled.
    pub popped_at: u64,
    /// When it was consumed, right before its acknowledgement was sent.
    pub consumed_at: u64,
    /// Whether it was popped.
    pub is_popped: bool,
}

impl Delivery {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(',').collect();
        let [body, queue, offset, reconsumed, popped_at, consumed_at, way, _verdict] = words[..] else { return None };
        Some(Self {
            body: body.to_owned(),
            place: (queue.parse().ok()?, offset.parse().ok()?),
            reconsumed: reconsumed.parse().ok()?,
            popped_at: popped_at.parse().ok()?,
            consumed_at: consumed_at.parse().ok()?,
            is_popped: way == "pop",
        })
    }
}

/// The consumer.
#[derive(Debug)]
pub struct PushConsumer {
    program: Process,
    scratch: PathBuf,
    seen: PathBuf,
    until: PathBuf,
}

impl PushConsumer {
    /// Starts one of a topic and a group; `name` is its own in the folder `scratch`.
    pub fn start(
        name_server: &str,
        (topic, group): (&str, &str),
        scratch: &Path,
        name: &str,
        flags: &[(&str, &str)],
    ) -> Self {
        let (seen, until) = (scratch.join(name), scratch.join(format!("{name}-until")));
        let (seen_text, until_text) = (seen.display().to_string(), until.display().to_string());
        let own = [
            ("topic", topic),
            ("group", group),
            ("seen-file", &*seen_text),
            ("until-file", &*until_text),
            ("limit-seconds", "3600"),
        ];
        let flags = [&own[..], flags].concat();
        let often = "-Drocketmq.client.rebalance.waitInterval=1000";
        let program = start_program_with(often, BROKER_VERSION, "PopConsume", name_server, scratch, &flags);
        Self { program, scratch: scratch.to_owned(), seen, until }
    }

    /// What was delivered to it.
    pub fn deliveries(&self) -> Vec<Delivery> {
        let text = fs::read_to_string(&self.seen).unwrap_or_default();
        text.lines().filter_map(Delivery::read).collect()
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(self) {
        fs::write(&self.until, "").expect("writes");
        result_of(self.program, &self.scratch, Duration::from_secs(60));
    }
}

/// What was delivered to several.
pub fn deliveries(consumers: &[PushConsumer]) -> Vec<Delivery> {
    consumers.iter().flat_map(PushConsumer::deliveries).collect()
}
