//! A small broker with a model beside it that knows what was acknowledged and what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{GroupName, LogOffset, Now, QueueId, QueueOffset, TopicName};
use broker::{Broker, Published, SendBack};
use format::document::{GroupDocument, TopicDocument};
use format::record::Record;
use storage::disk::{Disk, Failure, FaultyDisk, Operation};
use storage::{Options, ReadMode, StorageError};
use testkit::{at, clock_set};

use super::{Bench, layout, message, open_on};

const EIO: i32 = 5;

/// How often others are let run before nobody is expected to come.
const YIELDS: usize = 200;

/// Delays of the levels, ms.
pub const DELAYS_MS: [u64; 3] = [1000, 3000, 10_000];
const TOPICS: [&str; 2] = ["orders", "payments"];
/// Made and removed again and again; nothing in it is promised for longer.
const BRIEF_TOPIC: &str = "brief";
const GROUP: &str = "billing";
const RETRY_TOPIC: &str = "%RETRY%billing";
const QUEUES: u32 = 2;

/// Numbers that look random and follow from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x0DE1_A7ED)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// True so many times of 100.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A message that has a place in the log.
#[derive(Clone, Debug)]
struct Sent {
    /// Where consumers find it.
    topic: String,
    body: String,
    tries: i32,
    place: LogOffset,
    end: LogOffset,
    /// When it may be found at the earliest, by the true time.
    due_ms: u64,
}

/// A value that is written to a document: everything it was tried to be, and how many of these were answered for.
#[derive(Clone, Debug)]
struct Written<T> {
    tried: Vec<T>,
    answered: usize,
}

impl<T: Clone + PartialEq + std::fmt::Debug> Written<T> {
    fn new(value: T) -> Self {
        Self { tried: vec![value], answered: 1 }
    }

    fn try_out(&mut self, value: T) {
        self.tried.push(value);
    }

    /// Everything tried so far is in the document.
    fn settle(&mut self) {
        self.answered = self.tried.len();
    }

    /// What was found after a crash is what counts from then on: what was answered last, or tried since.
    fn find(&mut self, found: T, what: &str) {
        let allowed = &self.tried[self.answered - 1..];
        assert!(allowed.contains(&found), "{what} is {found:?}, not one of {allowed:?}");
        *self = Self::new(found);
    }
}

/// What was done and answered.
#[derive(Clone, Debug)]
pub struct Model {
    sent: Vec<Sent>,
    numbers: u64,
    offsets: BTreeMap<(usize, u32), Written<Option<i64>>>,
    /// The group's `retry_max_times`; `None` while it is not there.
    group: Written<Option<i32>>,
    /// Permission of `BRIEF_TOPIC`; `None` while it is not there.
    brief: Written<Option<u32>>,
    /// Below this a killed process loses nothing.
    pub written: LogOffset,
    /// And a power cut neither.
    pub durable: LogOffset,
    true_ms: u64,
    clock: Now,
}

impl Model {
    /// Nothing was done yet.
    pub fn new() -> Self {
        let queues = (0..TOPICS.len()).flat_map(|topic| (0..QUEUES).map(move |queue| (topic, queue)));
        Self {
            sent: Vec::new(),
            numbers: 0,
            offsets: queues.map(|at| (at, Written::new(None))).collect(),
            group: Written::new(None),
            brief: Written::new(None),
            written: LogOffset(0),
            durable: LogOffset(0),
            true_ms: 0,
            clock: at(1_700_000_000_000),
        }
    }

    /// What holds while that is done which leads to `after`: what was answered before, and what may have happened since.
    pub fn on_the_way_to(&self, after: &Self) -> Self {
        let mut model = after.clone();
        for (at, written) in &mut model.offsets {
            written.answered = self.offsets[at].answered;
        }
        model.group.answered = self.group.answered;
        model.brief.answered = self.brief.answered;
        (model.written, model.durable) = (self.written, self.durable);
        model
    }
}

/// How a world is laid out, some of which follows from the seed.
#[derive(Clone, Debug)]
pub struct Setup {
    segment_size: u64,
    queue_file_entries: u64,
    pub sync_flush: bool,
}

impl Setup {
    pub fn new(chance: &mut Chance) -> Self {
        Self {
            segment_size: chance.pick(&[4096, 16_384]),
            queue_file_entries: chance.pick(&[4, 30]),
            sync_flush: chance.percent(50),
        }
    }

    fn options(&self, disk: Disk) -> Options {
        Options {
            disk,
            segment_size: self.segment_size,
            queue_file_entries: self.queue_file_entries,
            key_index_slots: 16,
            key_index_entries: 400,
            recent_size: 1,
            ..layout(Path::new("/data"), DELAYS_MS.to_vec())
        }
    }
}

/// A broker that runs, with its model.
pub struct World {
    bench: Bench,
    pub model: Model,
    setup: Setup,
    disk: FaultyDisk,
}

impl World {
    /// Opens the broker and checks what it knows against the model, which then knows how much of it is left. Nothing below
    /// `at_least` may be missing.
    pub fn open(setup: &Setup, disk: &FaultyDisk, model: &Model, at_least: LogOffset) -> Self {
        let options = setup.options(Disk::new(disk.clone()));
        let bench = open_on(options, model.clock, |options| options.ack_policy.durable = setup.sync_flush);
        let end = bench.broker.store().watermarks().written();
        assert!(end >= at_least, "the log ends at {end}, promised up to {at_least}");
        let mut model = model.clone();
        model.sent.retain(|sent| sent.end <= end);
        let mut world = Self { bench, model, setup: setup.clone(), disk: disk.clone() };
        world.find_documents();
        world.note_watermarks();
        world
    }

    fn broker(&self) -> &Broker {
        &self.bench.broker
    }

    pub fn note_watermarks(&mut self) {
        let watermarks = self.broker().store().watermarks();
        (self.model.written, self.model.durable) = (watermarks.written(), watermarks.durable());
    }

    /// What the documents say is what was answered, or was tried since.
    fn find_documents(&mut self) {
        for (topic, queue) in self.model.offsets.keys().copied().collect::<Vec<_>>() {
            let end = self.end_of(TOPICS[topic], queue);
            let found = self.broker().offsets.committed(TOPICS[topic], GROUP, QueueId(queue));
            assert!(found.unwrap_or_default() <= end, "{found:?} is beyond the end {end} of {}/{queue}", TOPICS[topic]);
            // A power cut may have taken messages that were consumed already.
            let written = self.model.offsets.get_mut(&(topic, queue)).expect("all are there");
            written.tried.iter_mut().flatten().for_each(|offset| *offset = (*offset).min(end));
            written.find(found, &format!("the offset of {}/{queue}", TOPICS[topic]));
        }
        let found = self.broker().catalog.group(GROUP).map(|group| group.retry_max_times);
        self.model.group.find(found, "the group");
        let found = self.broker().catalog.topic(BRIEF_TOPIC).map(|topic| topic.settings.perm);
        self.model.brief.find(found, "the brief topic");
    }

    fn end_of(&self, topic: &str, queue: u32) -> i64 {
        end_of(&self.bench, topic, queue)
    }

    /// One step that follows from chance.
    pub fn step(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        match chance.below(100) {
            0..32 => self.send(chance),
            32..40 => self.send_back(chance),
            40..60 => {
                let milliseconds = chance.pick(&[1, 999, 1000, 2000, 10_000]);
                self.pass(milliseconds);
                self.deliver(chance)
            }
            60..64 => {
                // Somebody sets the clock back an hour.
                self.model.clock = clock_set(self.model.clock, -3_600_000);
                self.pass(0);
                self.deliver(chance)
            }
            64..72 => {
                let kept = self.broker().offsets.keep_changes(self.bench.now);
                kept.map(drop).map_err(|_| StorageError::WouldBlock)
            }
            72..78 => self.sync(),
            78..82 => self.checkpoint(),
            82..84 => self.broker().store().prepare_next_segment(),
            84..94 => self.change_document(chance),
            _ => self.save(),
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.model.true_ms += milliseconds;
        self.model.clock = self.model.clock.plus_ms(milliseconds);
        self.bench.now = self.model.clock;
    }

    fn deliver(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        self.broker().delivery.deliver_due(self.bench.now);
        if chance.percent(70) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StorageError> {
        self.broker().store().write_staged()?;
        self.note_watermarks();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.broker().store().sync()?;
        self.note_watermarks();
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.broker().checkpoint(self.bench.now)?;
        self.note_watermarks();
        Ok(())
    }

    /// What whoever sent it waits for.
    fn keep(&mut self) -> Result<(), StorageError> {
        self.write()?;
        if self.setup.sync_flush { self.sync() } else { Ok(()) }
    }

    fn send(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        self.model.numbers += 1;
        let (topic, body) = (chance.pick(&TOPICS), format!("message {} ", self.model.numbers));
        let body = body + &"-".repeat(chance.pick(&[0, 50, 400]));
        let level = chance.pick(&[0, 0, 1, 2, 3]);
        let property = if level > 0 { format!("DELAY\u{1}{level}\u{2}") } else { String::new() };
        let now = self.bench.now;
        let known = self.broker().catalog.topic_for_publish(topic, "TBW102", QUEUES, now).expect("a topic");
        // A topic that a crash took from the document is made again with the queues it has messages in.
        let queue = QueueId(chance.below(known.queues.len() as u64) as u32);
        let message = broker::Message { queue: Some(queue), ..message(body.as_bytes(), property.as_bytes()) };
        let mut batch = self.broker().publisher.begin_batch(0, now);
        self.broker().publisher.add(&mut batch, &known, &message).expect("taken");
        let Ok(published) = self.broker().publisher.append(batch, now) else { return Ok(()) };
        let due_ms = if level > 0 { self.model.true_ms + DELAYS_MS[level - 1] } else { 0 };
        let (place, end) = (first_of(&published), published.end());
        self.model.sent.push(Sent { topic: topic.to_owned(), body, tries: 0, place, end, due_ms });
        self.keep()
    }

    /// A consumer gives back the message it was given last.
    fn send_back(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        let topic = chance.pick(&[TOPICS[0], TOPICS[1], RETRY_TOPIC]);
        let Some((place, body, tries)) = self.records_in(topic).pop() else { return Ok(()) };
        if self.broker().catalog.group(GROUP).is_none() {
            return Ok(());
        }
        let delay_level = chance.below(3) as i32 + 1;
        let group = GroupName::trusted(GROUP);
        let back = SendBack { group, log_offset: place, delay_level, redeliveries_max: Some(100) };
        let Ok(Some(published)) = self.broker().retries.send_back(&back, self.bench.now) else { return Ok(()) };
        let due_ms = self.model.true_ms + DELAYS_MS[delay_level as usize - 1];
        let (place, end, topic) = (first_of(&published), published.end(), RETRY_TOPIC.to_owned());
        self.model.sent.push(Sent { topic, body, tries: tries + 1, place, end, due_ms });
        self.keep()
    }

    fn change_document(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        change(&self.bench, &mut self.model, chance.pick(&DOCUMENTS), chance)?;
        match chance.below(4) {
            0 if self.broker().catalog.topic(BRIEF_TOPIC).is_some() => {
                self.model.brief.try_out(None);
                let removed = self.broker().removals.topic(BRIEF_TOPIC, self.bench.now);
                self.note_watermarks();
                removed.map_err(|_| StorageError::WouldBlock)?;
                self.settle_answered();
                Ok(())
            }
            1 => {
                self.model.group.try_out(None);
                let removed = self.broker().removals.group(GROUP, false, self.bench.now);
                removed.map_err(|_| StorageError::WouldBlock)?;
                self.settle_answered();
                Ok(())
            }
            _ => self.save(),
        }
    }

    fn save(&mut self) -> Result<(), StorageError> {
        self.broker().save(self.bench.now)?;
        self.settle_documents();
        Ok(())
    }

    /// An answer says that what was changed before is kept too: on the disk only where answers wait for that.
    fn settle_answered(&mut self) {
        if self.setup.sync_flush {
            self.settle_documents();
        }
    }

    fn settle_documents(&mut self) {
        self.model.offsets.values_mut().for_each(Written::settle);
        self.model.group.settle();
        self.model.brief.settle();
    }

    /// The housekeeper is in the middle of writing a document when another change of it comes to be written.
    pub fn save_from_two_threads(&mut self, chance: &mut Chance) {
        self.save().expect("saves");
        let document = chance.pick(&DOCUMENTS);
        let (disk, now) = (self.disk.clone(), self.bench.now);
        change(&self.bench, &mut self.model, document, chance).expect("made");
        // That may have been a commit of what is committed already, which is no change.
        if matches!(document, Document::Offsets) {
            change(&self.bench, &mut self.model, Document::Groups, chance).expect("made");
        }
        disk.hold_syncs();
        std::thread::scope(|scope| {
            let broker = &self.bench.broker;
            let first = scope.spawn(move || broker.save(now));
            disk.wait_for_held(Operation::Sync);
            change(&self.bench, &mut self.model, document, chance).expect("made");
            let second = scope.spawn(move || broker.save(now));
            // It has to wait for the first; did it not, it would mostly come to a sync of its own meanwhile.
            for _ in (0..YIELDS).take_while(|_| disk.held_count(Operation::Sync) < 2) {
                std::thread::yield_now();
            }
            disk.release(Operation::Sync);
            first.join().expect("ends").expect("saves");
            second.join().expect("ends").expect("saves");
        });
        self.settle_documents();
    }

    pub fn close(&mut self) -> Result<(), StorageError> {
        self.broker().close(self.bench.now)?;
        self.settle_documents();
        self.note_watermarks();
        Ok(())
    }

    /// Every record of a topic that consumers find: its place, body and number of tries.
    fn records_in(&self, topic: &str) -> Vec<(LogOffset, String, i32)> {
        let mut found = Vec::new();
        for queue in self.broker().catalog.queues_of(topic).unwrap_or_default() {
            let queue = self.broker().store().queue(queue.topic(), queue.id());
            let mut entries = Vec::new();
            while queue.first().after(entries.len() as u64) < queue.end() {
                let from = queue.first().after(entries.len() as u64);
                queue.read(from, 100, ReadMode::MayWait, &mut entries).expect("reads entries");
            }
            let listed: Vec<(QueueOffset, _)> = (0..).map(|number| queue.first().after(number)).zip(entries).collect();
            let records = self.broker().store().read(&queue, &listed, ReadMode::MayWait).expect("reads records");
            for record in records.iter().flatten() {
                let record = Record::decode(record).expect("a record");
                let body = String::from_utf8_lossy(record.body).into_owned();
                found.push((record.log_offset, body, record.reconsume_times));
            }
        }
        found.sort_unstable();
        found
    }

    /// All that consumers find, by topic, body and number of tries.
    fn visible(&self) -> BTreeSet<(String, String, i32)> {
        let topics = [TOPICS[0], TOPICS[1], RETRY_TOPIC];
        let records = |topic: &&str| {
            let topic = (*topic).to_owned();
            self.records_in(&topic).into_iter().map(move |(_, body, tries)| (topic.clone(), body, tries))
        };
        topics.iter().flat_map(records).collect()
    }

    /// Nothing is there before its time.
    pub fn verify_nothing_is_early(&self) {
        let visible = self.visible();
        for sent in self.model.sent.iter().filter(|sent| sent.due_ms > self.model.true_ms) {
            let what = (sent.topic.clone(), sent.body.clone(), sent.tries);
            assert!(!visible.contains(&what), "{what:?} is due at {} and there at {}", sent.due_ms, self.model.true_ms);
        }
    }

    /// Lets all delays pass: everything kept is there then, but for what lies where the disk cannot be read.
    pub fn verify_everything_arrives(&mut self, kept: LogOffset, chance: &mut Chance) {
        self.verify_nothing_is_early();
        let mut unreadable = None;
        if chance.percent(30) && !self.model.sent.is_empty() {
            let lost = &self.model.sent[chance.below(self.model.sent.len() as u64) as usize];
            let (segment, position) = (lost.place.0 / self.setup.segment_size, lost.place.0 % self.setup.segment_size);
            let segment = format!("commitlog/{:020}", segment * self.setup.segment_size);
            self.disk.fail(Failure::unreadable(&segment, position + 50..position + 51, EIO));
            unreadable = Some(lost.place);
        }
        for _ in 0..4 {
            self.pass(DELAYS_MS[2]);
            while self.broker().delivery.deliver_due(self.bench.now) == 0 {}
            self.write().expect("writes");
        }
        let visible = self.visible();
        for sent in self.model.sent.iter().filter(|sent| sent.end <= kept && Some(sent.place) != unreadable) {
            let what = (sent.topic.clone(), sent.body.clone(), sent.tries);
            assert!(visible.contains(&what), "{what:?} at {}, due at {}, is lost", sent.place, sent.due_ms);
        }
    }
}

/// The documents beside the log, but for the progress of delayed messages.
#[derive(Clone, Copy)]
enum Document {
    Groups,
    Topics,
    Offsets,
}

const DOCUMENTS: [Document; 3] = [Document::Groups, Document::Topics, Document::Offsets];

/// An administrator or a consumer changes something that is not written yet.
fn change(bench: &Bench, model: &mut Model, document: Document, chance: &mut Chance) -> Result<(), StorageError> {
    let (catalog, now) = (&bench.broker.catalog, bench.now);
    match document {
        Document::Groups => {
            let times = catalog.group(GROUP).map_or(0, |group| group.retry_max_times + 1);
            let settings = GroupDocument { retry_max_times: times, ..GroupDocument::default() };
            catalog
                .put_groups(vec![(GroupName::trusted(GROUP), settings)], now)
                .map_err(|_| StorageError::WouldBlock)?;
            model.group.try_out(Some(times));
        }
        Document::Topics => {
            let perm = catalog.topic(BRIEF_TOPIC).map_or(6, |topic| if topic.settings.perm == 6 { 4 } else { 6 });
            let settings = TopicDocument { perm, read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
            let name = TopicName::trusted(BRIEF_TOPIC);
            catalog.put_topic(name, settings, now).map_err(|_| StorageError::WouldBlock)?;
            model.brief.try_out(Some(perm));
        }
        Document::Offsets => {
            let at = (chance.below(TOPICS.len() as u64) as usize, chance.below(u64::from(QUEUES)) as u32);
            let offset = chance.below(end_of(bench, TOPICS[at.0], at.1) as u64 + 1) as i64;
            let (topic, queue) = (TOPICS[at.0], QueueId(at.1));
            let is_reset = chance.percent(50);
            let offsets = &bench.broker.offsets;
            let take_in = if is_reset { broker::Offsets::reset } else { broker::Offsets::commit };
            if take_in(offsets, topic, GROUP, queue, offset).is_ok() {
                model.offsets.get_mut(&at).expect("all are there").try_out(Some(offset));
            }
        }
    }
    Ok(())
}

fn end_of(bench: &Bench, topic: &str, queue: u32) -> i64 {
    let topic = bench.broker.catalog.topic(topic);
    topic.and_then(|topic| topic.queue(QueueId(queue)).ok().map(|queue| queue.end().0)).unwrap_or_default() as i64
}

fn first_of(published: &Published) -> LogOffset {
    published.positions(0..1).next().expect("a message").log_offset
}
