//! A small store with a model beside it that knows what was appended and what was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use format::hash::key_hash;
use format::index_rules::IndexRules;
use format::record::{Draft, Record, fan_out_properties};
use inspect::{Finding, Kind, check};
use serde_json::json;
use storage::disk::Disk;
use storage::{AppendBatch, CommitRule, NoState, Options, ReadMode, RetentionPolicy, StorageError, Store};

/// Numbers that look random and follow from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
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

pub const TOPICS: [&str; 3] = ["orders", "payments", "returns"];
pub const QUEUES: u32 = 2;
pub const DOCUMENTS: [&str; 2] = ["topics.json", "consumerOffset.json"];

/// One record that has a place in the log.
#[derive(Clone, Debug)]
pub struct Known {
    /// Where it is listed: in its own queue first.
    listed: Vec<Listed>,
    place: u64,
    end: u64,
    number: u64,
}

/// A place in a queue.
#[derive(Clone, Debug)]
struct Listed {
    topic: usize,
    queue: u32,
    offset: u64,
    /// Which life of the topic it belongs to.
    life: u32,
}

impl Known {
    /// Its offset in a queue, if it is listed there.
    fn offset_in(&self, topic: usize, queue: u32, life: u32) -> Option<u64> {
        let of_queue = |at: &&Listed| (at.topic, at.queue, at.life) == (topic, queue, life);
        self.listed.iter().find(of_queue).map(|at| at.offset)
    }
}

/// What was done and promised.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// In log order.
    records: Vec<Known>,
    /// Entries each queue has got in this life of its topic.
    counts: BTreeMap<(usize, u32, u32), u64>,
    lives: [u32; TOPICS.len()],
    /// Topics whose removal was begun and not acknowledged.
    going: BTreeSet<usize>,
    numbers: u64,
    /// Retention took everything below, and was let take everything below the second.
    first: u64,
    may_go_below: u64,
    /// Acknowledged: survives a killed process.
    pub written: u64,
    /// Acknowledged: survives a power cut.
    pub durable: u64,
    /// What a governed store was told to be committed.
    pub committed: u64,
    /// The last version acknowledged, and those tried since.
    documents: BTreeMap<&'static str, (Option<u64>, Vec<u64>)>,
}

impl Model {
    /// The next place in a queue.
    fn list(&mut self, topic: usize, queue: u32) -> Listed {
        let life = self.lives[topic];
        let count = self.counts.entry((topic, queue, life)).or_default();
        *count += 1;
        Listed { topic, queue, offset: *count - 1, life }
    }

    /// Forgets what lies beyond the end of the log.
    fn cut(&mut self, end: u64) {
        self.records.retain(|record| record.end <= end);
        self.counts.clear();
        for at in self.records.iter().flat_map(|record| &record.listed) {
            *self.counts.entry((at.topic, at.queue, at.life)).or_default() = at.offset + 1;
        }
    }
}

/// The options of a world, some of which follow from the seed.
pub fn options(chance: &mut Chance, disk: Disk) -> Options {
    let segment_size = chance.pick(&[1536, 4096, 4096, 16_384]);
    let segments_kept = chance.pick(&[0, 1, 1, 2]);
    Options {
        disk,
        log_directory: chance.percent(20).then(|| PathBuf::from("/machine/log/commitlog")),
        segment_size,
        queue_file_entries: chance.pick(&[4, 8, 30, 120]),
        checkpoint_reserve: Some(4096),
        gathered_entries: chance.pick(&[0, 5, 1 << 20]),
        open_queue_files: chance.pick(&[1, 2, 256]),
        key_index_slots: 16,
        key_index_entries: chance.pick(&[12, 40, 400]),
        recent_size: chance.pick(&[1, 1024]),
        index_rules: IndexRules::new(vec![1000]),
        record_checksums: chance.percent(25),
        commit_rule: if chance.percent(40) { CommitRule::Told { known: LogOffset(0) } } else { CommitRule::Written },
        retention: RetentionPolicy {
            size: (segments_kept > 0).then_some(segments_kept * segment_size),
            ..RetentionPolicy::default()
        },
        ..Options::new(Path::new("/machine/data"))
    }
}

/// A store that is open, with its model.
pub struct World {
    pub store: Arc<Store>,
    pub model: Model,
    options: Options,
    /// By this process.
    last_stored: Timestamp,
}

impl World {
    /// Opens the store and checks it against the model, which then knows how much of it is left. Nothing below
    /// `at_least` may be missing.
    pub fn open(options: &Options, model: &Model, at_least: u64) -> Result<Self, StorageError> {
        let mut options = options.clone();
        if let CommitRule::Told { known } = &mut options.commit_rule {
            // Who governs it remembers that, or not.
            known.0 = if model.numbers.is_multiple_of(3) { 0 } else { model.committed };
        }
        let (store, recovery) = Store::open(options.clone(), Arc::new(Metrics::default()), &mut |_| ())?;
        assert!(recovery.damaged.is_empty(), "damaged: {:?}", recovery.damaged);
        assert!(recovery.unusable.is_empty(), "unusable: {:?}", recovery.unusable);
        let end = store.watermarks().written().0;
        assert!(end >= at_least, "the log ends at {end}, promised up to {at_least}");
        let mut model = model.clone();
        model.cut(end);
        let first = store.log_first().0;
        let may_go_below = model.may_go_below.max(model.first);
        assert!(
            (model.first..=may_go_below).contains(&first),
            "begins at {first}, not {}..={may_go_below}",
            model.first
        );
        model.first = first;
        let mut world = Self { store: Arc::new(store), model, options, last_stored: Timestamp(0) };
        world.verify_known();
        world.settle()?;
        world.verify();
        world.check();
        world.note_watermarks();
        Ok(world)
    }

    fn note_watermarks(&mut self) {
        self.model.written = self.store.watermarks().written().0;
        self.model.durable = self.store.watermarks().durable().0;
    }

    fn name(topic: usize) -> TopicName {
        TopicName::trusted(TOPICS[topic])
    }

    /// Finishes removals that were cut short; what is left of such a topic is right as far as it goes.
    fn settle(&mut self) -> Result<(), StorageError> {
        for topic in self.model.going.clone() {
            for queue in 0..QUEUES {
                self.verify_remains(topic, queue);
            }
            self.commit_all()?;
            self.store.remove_topic(&Self::name(topic))?;
            self.model.lives[topic] += 1;
            self.model.going.remove(&topic);
        }
        Ok(())
    }

    /// Everything that was known to be committed when the store was opened is.
    fn verify_known(&self) {
        let CommitRule::Told { known } = self.options.commit_rule else { return };
        let committed = self.store.watermarks().committed().0;
        let is_kept = |end: u64| end <= known.0 && end <= self.store.watermarks().written().0;
        let last = self.model.records.iter().map(|record| record.end).filter(|end| is_kept(*end)).max();
        assert!(committed >= last.unwrap_or_default(), "{committed} of {known} is committed");
    }

    /// The in-sync set has some more of what is written.
    pub fn commit(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        let (committed, written) = (self.store.watermarks().committed().0, self.store.watermarks().written().0);
        let told = if chance.percent(30) { written } else { committed + chance.below(written - committed + 1) };
        self.commit_until(told)
    }

    fn commit_all(&mut self) -> Result<(), StorageError> {
        self.store.write_staged()?;
        self.commit_until(self.store.watermarks().written().0)
    }

    fn commit_until(&mut self, told: u64) -> Result<(), StorageError> {
        self.model.committed = self.model.committed.max(told);
        self.store.set_committed(LogOffset(told), &mut NoState)?;
        let committed = self.store.watermarks().committed().0;
        let (before, written) = (self.model.committed.max(told), self.store.watermarks().written().0);
        assert!(committed <= before.max(written) && (told < written || committed == written), "{committed} of {told}");
        Ok(())
    }

    /// Gives some records their places. They are not written yet.
    pub fn append(&mut self, chance: &mut Chance) -> Result<(), StorageError> {
        let mut batch = self.store.begin_batch(0);
        let mut pushed = Vec::new();
        for _ in 0..chance.pick(&[1, 1, 2, 3, 4, 12]) {
            let (topic, queue) = (chance.below(TOPICS.len() as u64) as usize, chance.below(u64::from(QUEUES)) as u32);
            self.model.numbers += 1;
            let (number, size) = (self.model.numbers, chance.pick(&[0, 10, 100, 500]));
            let before = batch.size();
            // Some go to queues of other topics too.
            let others = (0..TOPICS.len()).filter(|other| *other != topic && chance.percent(15));
            let topics: Vec<_> = std::iter::once(topic).chain(others).collect();
            push(&self.store, &mut batch, &topics, queue, number, size);
            pushed.push((topics, queue, number, (batch.size() - before) as u64));
        }
        // The clock is set back now and then, over restarts too.
        let clock_seconds = if chance.percent(10) { chance.below(self.model.numbers) } else { self.model.numbers };
        let appended = self.store.append(batch, Timestamp(1000 * clock_seconds))?;
        assert!(appended.store_timestamp >= self.last_stored, "no record is stored before an earlier one");
        self.last_stored = appended.store_timestamp;
        for ((topics, queue, number, size), record) in pushed.into_iter().zip(&appended.records) {
            let listed: Vec<_> = topics.into_iter().map(|topic| self.model.list(topic, queue)).collect();
            assert_eq!(listed[0].offset, record.queue_offset.0);
            let place = record.log_offset.0;
            self.model.records.push(Known { listed, place, end: place + size, number });
        }
        Ok(())
    }

    pub fn write(&mut self) -> Result<(), StorageError> {
        self.store.write_staged()?;
        self.model.written = self.store.watermarks().written().0;
        Ok(())
    }

    pub fn sync(&mut self) -> Result<(), StorageError> {
        let durable = self.store.sync()?;
        assert_eq!(durable, self.store.watermarks().durable());
        self.note_watermarks();
        Ok(())
    }

    pub fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.store.checkpoint()?;
        self.note_watermarks();
        Ok(())
    }

    /// To be called before `apply_retention`, so that a crash in between is judged right.
    pub fn begin_retention(&mut self) {
        let Options { retention, segment_size, .. } = &self.options;
        if let Some(size) = retention.size {
            // Whole segments, and the last one only if the log was above its size with it.
            let end = self.store.watermarks().written().0;
            let may_go_below = (end + segment_size).saturating_sub(size + 1) / segment_size * segment_size;
            self.model.may_go_below = self.model.may_go_below.max(may_go_below);
        }
    }

    /// The same on a disk that is short of room, where any segment may go.
    pub fn begin_retention_for_room(&mut self) {
        self.model.may_go_below = self.store.watermarks().written().0;
    }

    pub fn apply_retention(&mut self) -> Result<(), StorageError> {
        self.store.apply_retention(Timestamp(0), 0)?;
        let first = self.store.log_first().0;
        assert!(first <= self.model.may_go_below.max(self.model.first), "the log begins at {first}");
        self.model.first = first;
        Ok(())
    }

    /// To be called before `remove_topic`, so that a crash in between is judged right.
    pub fn begin_removal(&mut self, topic: usize) {
        self.model.going.insert(topic);
    }

    pub fn remove_topic(&mut self, topic: usize) -> Result<(), StorageError> {
        self.commit_all()?;
        self.store.remove_topic(&Self::name(topic))?;
        self.model.lives[topic] += 1;
        self.model.going.remove(&topic);
        self.note_watermarks();
        Ok(())
    }

    /// To be called before `write_document`; gives the version to write.
    pub fn begin_document(&mut self, name: &'static str) -> u64 {
        self.model.numbers += 1;
        self.model.documents.entry(name).or_default().1.push(self.model.numbers);
        self.model.numbers
    }

    pub fn write_document(&mut self, name: &'static str, version: u64) -> Result<(), StorageError> {
        let fill = "-".repeat((version % 7 * 150) as usize);
        let topics: BTreeMap<_, _> = TOPICS.iter().map(|topic| (topic, json!({}))).collect();
        let document = json!({ "version": version, "fill": fill, "topicConfigTable": topics });
        self.store.write_document(name, &document.to_string())?;
        self.model.documents.insert(name, (Some(version), Vec::new()));
        Ok(())
    }

    pub fn close(&mut self) -> Result<(), StorageError> {
        self.store.close()?;
        self.check();
        self.note_watermarks();
        Ok(())
    }

    /// Appends to every queue, stops in good order, and opens again: everything must still fit together.
    pub fn live_on(mut self, chance: &mut Chance) {
        for _ in 0..3 {
            self.append(chance).expect("appends");
        }
        self.write().expect("writes");
        self.commit(chance).expect("commits");
        self.verify();
        self.close().expect("closes");
        let Self { store, model, options, .. } = self;
        drop(store);
        let end = model.written;
        let again = Self::open(&options, &model, end).expect("opens after an orderly stop");
        assert_eq!(again.model.written, end, "an orderly stop loses nothing and adds nothing");
    }

    /// Everything that is there is right, and everything that should be there is: what is committed, and nothing else.
    pub fn verify(&self) {
        let end = self.store.watermarks().committed().0;
        for (number, topic) in TOPICS.iter().enumerate() {
            for queue in 0..QUEUES {
                self.verify_queue(number, queue, end);
            }
            let count = self.store.topics().get(&TopicName::trusted(topic)).copied().unwrap_or_default();
            assert!(count <= QUEUES, "{count} queues of {topic}");
        }
        self.verify_keys(end);
        for known in &self.model.records {
            match self.store.record_at(LogOffset(known.place)).expect("reads") {
                found if known.end > end => assert!(found.is_none(), "a record at {} of {end}", known.place),
                Some(bytes) => assert_is(&bytes, known),
                None => assert!(self.is_gone(known), "no record at {}", known.place),
            }
        }
        for name in DOCUMENTS {
            let (acknowledged, tried) = self.model.documents.get(name).cloned().unwrap_or_default();
            let found = self.store.read_document(name).expect("reads a document");
            let found = found.map(|document| document["version"].as_u64().expect("a version"));
            let is_right = found == acknowledged || found.is_some_and(|found| tried.contains(&found));
            assert!(is_right, "{name} is {found:?}, was {acknowledged:?} or one of {tried:?}");
        }
    }

    /// What lies on the disk is as it should be: to be called when all that is known has been put there.
    fn check(&self) {
        let report = check(&self.options, false, &mut |_| ()).expect("checks");
        let wrong: Vec<_> = report.findings.iter().filter(|finding| !self.is_expected(finding)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Whether a finding tells of something that was done to the store.
    fn is_expected(&self, finding: &Finding) -> bool {
        let was_removed = |topic: usize| self.model.lives[topic] > 0;
        match finding.kind {
            Kind::NotStopped | Kind::TopicsEmpty => true,
            // What is newer than the last checkpoint of an open store.
            Kind::EntriesBehind | Kind::KeysBehind => true,
            // What a power cut left of the log's end, and of a document that was being replaced.
            Kind::SetAside => true,
            Kind::UnknownFile => finding.file.starts_with("config/") && finding.file.ends_with(".tmp"),
            // A name that was never synced may be lost though the backup's is not.
            Kind::DocumentFallsBack => self
                .model
                .documents
                .iter()
                .any(|(name, (acknowledged, _))| finding.file == format!("config/{name}") && acknowledged.is_none()),
            Kind::TopicsMissing => self.model.documents.values().all(|(acknowledged, _)| acknowledged.is_none()),
            Kind::EarlierLife | Kind::QueueUnlisted => {
                (0..TOPICS.len()).any(|topic| was_removed(topic) && finding.file.contains(TOPICS[topic]))
            }
            _ => false,
        }
    }

    fn verify_queue(&self, topic: usize, queue: u32, end: u64) {
        let life = self.model.lives[topic];
        let of_queue = |known: &&Known| known.offset_in(topic, queue, life).is_some();
        let all: Vec<_> = self.model.records.iter().filter(of_queue).filter(|known| known.end <= end).collect();
        let gone = all.iter().filter(|known| self.is_gone(known)).count();
        let expected = &all[gone..];
        let index = self.store.queue(&Self::name(topic), QueueId(queue));
        let bounds = (index.first().0, index.end().0);
        let what = format!("{}/{queue} in life {life}", TOPICS[topic]);
        assert_eq!(
            bounds,
            (gone as u64, all.len() as u64),
            "first and end of {what}, log {} to {end}",
            self.model.first
        );
        let entries = super::entries(&index);
        assert_eq!(entries.len(), expected.len(), "entries of {what}");
        let found = self.store.read(&index, &entries, ReadMode::MayWait).expect("reads records");
        for ((number, known), bytes) in expected.iter().enumerate().zip(found.iter()) {
            let offset = (gone + number) as u64;
            let listed = known.offset_in(topic, queue, life).expect("one of this queue");
            assert_eq!((listed, entries[number].1.log_offset.0), (offset, known.place), "{what}");
            assert_is(bytes.expect("a whole record"), known);
        }
    }

    /// Whether retention took the record.
    fn is_gone(&self, known: &Known) -> bool {
        known.place < self.store.log_first().0
    }

    fn verify_remains(&self, topic: usize, queue: u32) {
        let index = self.store.queue(&Self::name(topic), QueueId(queue));
        let entries = super::entries(&index);
        let found = self.store.read(&index, &entries, ReadMode::MayWait).expect("reads records");
        for (number, bytes) in found.iter().enumerate().filter_map(|(number, bytes)| Some((number, bytes?))) {
            let (offset, place) = (entries[number].0.0, entries[number].1.log_offset.0);
            let known = self.model.records.iter().find(|known| known.place == place).expect("a known record");
            assert!(known.listed.iter().any(|at| (at.topic, at.queue, at.offset) == (topic, queue, offset)));
            assert_is(bytes, known);
        }
    }

    fn verify_keys(&self, end: u64) {
        let is_there = |known: &&Known| known.end <= end && !self.is_gone(known);
        let written: Vec<_> = self.model.records.iter().filter(is_there).collect();
        let mut expected: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for known in &written {
            for key in keys_of(known.number) {
                expected.entry(key_hash(TOPICS[known.listed[0].topic], &key)).or_default().insert(0, known.place);
            }
        }
        for (hash, places) in expected {
            let mut found = Vec::new();
            let all = (Timestamp(0), Timestamp(u64::MAX / 2));
            let accept = |place: LogOffset| {
                let is_there = place >= self.store.log_first();
                found.extend(is_there.then_some(place.0));
                Ok(is_there)
            };
            self.store.find_by_key(hash, all, 1000, accept).expect("finds");
            assert_eq!(found, places, "places of key {hash}, log to {end}");
        }
    }
}

fn keys_of(number: u64) -> [String; 2] {
    [format!("k{number}"), format!("s{}", number % 3)]
}

fn body_of(number: u64, size: usize) -> Vec<u8> {
    let mut body = format!("{number}:").into_bytes();
    body.resize(body.len() + size, b'a' + (number % 26) as u8);
    body
}

/// Adds a record of the first topic to the batch that is listed in a queue of each.
fn push(store: &Store, batch: &mut AppendBatch, topics: &[usize], queue: u32, number: u64, size: usize) {
    let body = body_of(number, size);
    let names: Vec<_> = topics.iter().map(|&topic| TOPICS[topic]).collect();
    let property = format!("KEYS\u{1}{}\u{2}", keys_of(number).join(" "));
    let further = if names.len() > 1 { fan_out_properties(&names[1..]) } else { Vec::new() };
    let properties: &[&[u8]] = &[property.as_bytes(), &further, store.checksum_room()];
    let draft = Draft { properties, ..testkit::draft(names[0], QueueId(queue), &body) };
    let queues: Vec<_> = topics.iter().map(|&topic| store.queue(&World::name(topic), QueueId(queue))).collect();
    testkit::push(store, batch, &queues[0], &draft);
    batch.list_in(&queues[1..]);
}

fn assert_is(bytes: &[u8], known: &Known) {
    let record = Record::decode(bytes).expect("decodes");
    let wanted = |at: &Listed| (TOPICS[at.topic].to_owned(), at.queue, at.offset);
    let found = record.queue_refs().map(|at| (at.topic.to_owned(), at.queue.0, at.offset.0));
    assert!(found.eq(known.listed.iter().map(wanted)), "where record {} is listed", known.number);
    assert_eq!(record.log_offset.0, known.place);
    let size = record.body.len() - format!("{}:", known.number).len();
    assert_eq!(record.body, body_of(known.number, size), "the body of record {}", known.number);
}
