//! Every entry of every queue against the record it points at, in one pass over the log.
//!
//! Entries of a queue and its records in the log come in one order, so each queue has a position up to which its entries were
//! judged. A record takes the entry at that position, if it points at it. If not, either has no counterpart.

use std::collections::HashSet;

use base::name::MessageQueueName;
use base::{QueueId, QueueOffset, TopicName};
use format::index_rules::{EntryCode, Listing};
use format::lane_code::LaneCode;
use format::queue_entry::{Entry, GAP};
use format::record::Record;
use storage::{folder_of_all, folder_of_topic};

use crate::finding::Kind;
use crate::queue_files::QueueFiles;
use crate::scene::Scene;

/// What a due time may differ from the store time and the level's delay: clocks are set.
const DUE_TIME_SLACK_MS: u64 = 5_000;

/// Codes at and below this are addresses in another file (RocketMQ `ConsumeQueueExt`).
const EXTENDED_CODE_MAX: i64 = i32::MIN as i64 - 1;

/// Findings of one kind in a row.
#[derive(Debug)]
struct Run {
    kind: Kind,
    from: u64,
    count: u64,
    what: String,
}

/// How far one queue was judged.
#[derive(Debug, Default)]
struct Progress {
    /// Whether `next` stands at the queue's first entry or after it.
    is_begun: bool,
    /// Entries below this were judged.
    next: u64,
    /// One past the last position that has an entry or a record.
    end: u64,
    /// Records of the queue before this log offset are of an earlier life, if they have no entry.
    life_from: u64,
    records: u64,
    entries: u64,
    unlisted: u64,
    behind: u64,
    earlier: u64,
    run: Option<Box<Run>>,
}

/// All queues while the log is read.
pub(crate) struct Queues {
    files: QueueFiles,
    progress: Vec<Progress>,
    last: usize,
    /// Entries whose records retention removed.
    gone: u64,
}

impl Queues {
    pub(crate) fn new(files: QueueFiles) -> Self {
        let progress = (0..files.count()).map(|_| Progress::default()).collect();
        Self { files, progress, last: 0, gone: 0 }
    }

    /// Judges what a queue has of `record` that is to list it.
    pub(crate) fn record(&mut self, record: &Record<'_>, listing: &Listing<'_>, scene: &mut Scene) {
        let topic = listing.topic.as_str();
        if self.files.name(self.last) != (topic, listing.queue.0) {
            self.last = self.files.queue(topic, listing.queue.0);
            self.progress.resize_with(self.files.count(), Progress::default);
        }
        let (queue, log_offset, position) = (self.last, record.log_offset.0, listing.offset.0);
        let Some(progress) = self.progress.get_mut(queue) else { return };
        progress.records += 1;
        progress.end = progress.end.max(position + 1);
        if !std::mem::replace(&mut progress.is_begun, true) {
            progress.next = self.files.next_entry(queue, 0).map_or(0, |(first, _)| first);
        }
        while let Some((at, entry)) = self.next(queue) {
            if entry.log_offset.0 > log_offset {
                break;
            }
            if entry.log_offset.0 == log_offset && !(at != position && is_lost(entry)) {
                self.advance(queue, at + 1);
                return self.compare(queue, at, entry, (record, listing), scene);
            }
            self.advance(queue, at + 1);
            if at == position && !is_blank(entry) {
                return self.elsewhere(queue, at, entry, Some(log_offset), scene);
            }
            self.judge_passed(queue, at, entry, scene);
        }
        self.unlisted(queue, (record, listing), scene);
    }

    fn next(&mut self, queue: usize) -> Option<(u64, Entry)> {
        let at = self.progress.get(queue)?.next;
        self.files.entry(queue, at).map(|entry| (at, entry))
    }

    fn advance(&mut self, queue: usize, next: u64) {
        if let Some(progress) = self.progress.get_mut(queue) {
            progress.next = next;
        }
    }

    /// The next entry of the queue, if it has one, points further on than `record`.
    fn unlisted(&mut self, queue: usize, (record, listing): (&Record<'_>, &Listing<'_>), scene: &mut Scene) {
        let (log_offset, position) = (record.log_offset.0, listing.offset.0);
        let Some(next) = self.progress.get(queue).map(|progress| progress.next) else { return };
        let own = if position > next { self.files.entry_far(queue, position) } else { None };
        if let Some(own) = own.filter(|own| own.log_offset.0 == log_offset) {
            // What lies before it points nowhere, or further on than it may.
            while let Some((at, entry)) = self.files.next_entry(queue, self.next_of(queue)) {
                if at >= position {
                    break;
                }
                self.advance(queue, at + 1);
                self.judge_passed(queue, at, entry, scene);
            }
            self.advance(queue, position + 1);
            return self.compare(queue, position, own, (record, listing), scene);
        }
        let found = self.files.entry(queue, next);
        if let Some(entry) = found
            && position >= next
            && self.is_right(queue, next, entry, log_offset, scene)
        {
            self.count(queue, |progress| progress.earlier += 1);
            return;
        }
        if position == next {
            self.advance(queue, next + 1);
        }
        match if position == next { found } else { own } {
            Some(entry) => self.elsewhere(queue, position, entry, Some(log_offset), scene),
            None => self.missing(queue, position, log_offset, scene),
        }
    }

    fn next_of(&self, queue: usize) -> u64 {
        self.progress.get(queue).map_or(0, |progress| progress.next)
    }

    fn count(&mut self, queue: usize, add: impl FnOnce(&mut Progress)) {
        if let Some(progress) = self.progress.get_mut(queue) {
            add(progress);
        }
    }

    /// Whether the entry at `position`, which points further on than `log_offset`, points at its own record there.
    fn is_right(&mut self, queue: usize, position: u64, entry: Entry, log_offset: u64, scene: &Scene) -> bool {
        if self.progress.get(queue).is_some_and(|progress| log_offset < progress.life_from) {
            return true;
        }
        let (topic, number) = self.files.name(queue);
        let is_right = scene.log.look(entry.log_offset.0, |record| {
            let mut listings = scene.rules.apply_to(record).listings(record);
            listings.any(|listing| listing.is_at(topic, QueueId(number), QueueOffset(position)))
        });
        if is_right == Some(true) {
            self.count(queue, |progress| progress.life_from = entry.log_offset.0);
        }
        is_right == Some(true)
    }

    /// An entry that points at the record: what else it says.
    fn compare(
        &mut self,
        queue: usize,
        at: u64,
        entry: Entry,
        (record, listing): (&Record<'_>, &Listing<'_>),
        scene: &mut Scene,
    ) {
        self.count(queue, |progress| {
            progress.entries += 1;
            progress.end = progress.end.max(at + 1);
        });
        let log_offset = record.log_offset;
        if at != listing.offset.0 {
            let says = listing.offset;
            let what =
                format!("entry {at} points at log offset {log_offset}, whose record says it is at offset {says}");
            return self.found(queue, Kind::EntryWrong, at, what, scene);
        }
        if entry.size as usize != record.size {
            let what = format!("entry {at} says {} bytes, its record has {}", entry.size, record.size);
            return self.found(queue, Kind::EntryWrong, at, what, scene);
        }
        let (right, says) = (listing.code.at(record.store_timestamp), entry.tag_code);
        match listing.code {
            EntryCode::DueAfter(_) if says.abs_diff(right) > DUE_TIME_SLACK_MS => {
                let what = format!("entry {at} is due at {says}, by its level at {right} (ms since 1970)");
                self.found(queue, Kind::DueTime, at, what, scene);
            }
            EntryCode::Tag(_) if says != right && says > EXTENDED_CODE_MAX => {
                let what = format!("entry {at} has the tag code {says}, the record's tag {right}");
                self.found(queue, Kind::EntryWrong, at, what, scene);
            }
            EntryCode::Lane { .. } if says != right => {
                let told = |code| {
                    let LaneCode { expiry, around } = LaneCode::of(&Entry { tag_code: code, ..entry });
                    (expiry.map_or(0, |expiry| expiry.0), around)
                };
                let ((expiry, around), (right, right_around)) = (told(says), told(right));
                let what = format!(
                    "entry {at} expires at {expiry}, its message at {right} (ms since 1970, 0 for never), with {around} bytes around a body that has {right_around}"
                );
                self.found(queue, Kind::EntryWrong, at, what, scene);
            }
            _ => {}
        }
    }

    /// An entry that no record of the queue has taken.
    fn judge_passed(&mut self, queue: usize, at: u64, entry: Entry, scene: &mut Scene) {
        self.count(queue, |progress| progress.end = progress.end.max(at + 1));
        if is_blank(entry) || is_lost(entry) {
            return;
        }
        if entry.log_offset.0 < scene.log.first() {
            self.gone += 1;
        } else if !scene.is_excused(entry.log_offset.0) {
            self.elsewhere(queue, at, entry, None, scene);
        }
    }

    fn elsewhere(&mut self, queue: usize, at: u64, entry: Entry, own: Option<u64>, scene: &mut Scene) {
        let found = entry.log_offset;
        let there = scene.log.describe(found.0);
        let own = own.map(|own| format!("; its record is at {own}")).unwrap_or_default();
        self.count(queue, |progress| progress.end = progress.end.max(at + 1));
        self.found(
            queue,
            Kind::EntryElsewhere,
            at,
            format!("entry {at} points at log offset {found}: {there}{own}"),
            scene,
        );
    }

    /// A record that has no entry.
    fn missing(&mut self, queue: usize, position: u64, log_offset: u64, scene: &mut Scene) {
        if !self.files.is_there(queue) || self.files.is_excused(queue, position) {
            return;
        }
        if !self.files.has_files(queue) && !scene.may_lag(log_offset) {
            return self.count(queue, |progress| progress.unlisted += 1);
        }
        if scene.may_lag(log_offset) {
            return self.count(queue, |progress| progress.behind += 1);
        }
        let is_taken = self.files.entry_far(queue, position).is_some();
        let has = if is_taken { "has the entry of another record" } else { "has no entry" };
        let what = format!("offset {position} {has}; the record at log offset {log_offset} is not listed");
        self.found(queue, Kind::EntryMissing, position, what, scene);
    }

    /// Adds a finding, or draws the last one out.
    fn found(&mut self, queue: usize, kind: Kind, at: u64, what: String, scene: &mut Scene) {
        let Some(progress) = self.progress.get_mut(queue) else { return };
        if let Some(run) = progress.run.as_mut().filter(|run| run.kind == kind && run.from + run.count == at) {
            run.count += 1;
            return;
        }
        let before = progress.run.replace(Box::new(Run { kind, from: at, count: 1, what }));
        self.tell(queue, before, scene);
    }

    fn tell(&self, queue: usize, run: Option<Box<Run>>, scene: &mut Scene) {
        let Some(run) = run else { return };
        let (file, position) = self.files.locate(queue, run.from);
        let what = match run.count {
            1 => run.what,
            count => format!("{}; the {} after it likewise", run.what, count - 1),
        };
        scene.findings.add(run.kind, file, position, what);
    }

    /// The log has ended at `log_end`: judges the entries nobody took.
    pub(crate) fn finish(&mut self, log_end: u64, scene: &mut Scene) {
        for queue in 0..self.files.count() {
            while let Some((at, entry)) = self.files.next_entry(queue, self.next_of(queue)) {
                self.advance(queue, at + 1);
                if entry.log_offset.0 < log_end || is_blank(entry) || scene.is_excused(entry.log_offset.0) {
                    self.judge_passed(queue, at, entry, scene);
                } else if scene.is_unsure(log_end) {
                    self.count(queue, |progress| progress.behind += 1);
                } else {
                    let what =
                        format!("entry {at} points at log offset {}; the log ends at {log_end}", entry.log_offset);
                    self.found(queue, Kind::EntryBeyondEnd, at, what, scene);
                }
            }
            let run = self.progress.get_mut(queue).and_then(|progress| progress.run.take());
            self.tell(queue, run, scene);
            let earlier = self.progress.get(queue).map_or(0, |progress| progress.earlier);
            if earlier > 0 {
                let (topic, number) = self.files.name(queue);
                let file = format!("{}/{number}", folder_of_topic(topic));
                scene.findings.add(Kind::EarlierLife, file, None, format!("{earlier} messages"));
            }
        }
        let behind = self.progress.iter().map(|progress| progress.behind).filter(|behind| *behind > 0);
        let (queues, messages) = behind.fold((0_u64, 0_u64), |(queues, sum), behind| (queues + 1, sum + behind));
        if queues > 0 {
            let what = format!("{messages} messages in {queues} queues");
            scene.findings.add(Kind::EntriesBehind, "consumequeue", None, what);
        }
    }

    /// Tells of queues that have messages and no files; `listed` are the topics of topics.json, and `message_queues` the numbers of those that
    /// there are, if these are known.
    pub(crate) fn judge_topics(
        &self,
        listed: Option<&HashSet<String>>,
        message_queues: Option<&HashSet<u32>>,
        scene: &mut Scene,
    ) {
        self.judge_folders(scene);
        let mut removed = vec![0_u64; self.files.topics().len()];
        for (queue, progress) in self.progress.iter().enumerate().filter(|(_, progress)| progress.unlisted > 0) {
            let (topic, number) = self.files.name(queue);
            let count = progress.unlisted;
            let of_topic = self.files.topic_of(queue);
            let has_folder = || self.files.topics().get(of_topic).is_some_and(|(_, has_folder)| *has_folder);
            let is_removed = match (TopicName::trusted(topic).message_queue(), message_queues) {
                (Some(number), Some(message_queues)) => !message_queues.contains(&number.0),
                (Some(_), None) => !has_folder(),
                (None, _) => listed.is_some_and(|listed| !listed.contains(topic)),
            };
            if is_removed {
                removed.get_mut(of_topic).into_iter().for_each(|sum| *sum += count);
            } else {
                let what = format!("{count} messages; the folder has no file");
                scene.findings.add(Kind::QueueUnlisted, format!("{}/{number}", folder_of_topic(topic)), None, what);
            }
        }
        let mut of_message_queues = (0_u64, 0_u64);
        for ((topic, has_folder), removed) in self.files.topics().iter().zip(removed) {
            if is_message_queue(topic) {
                of_message_queues.0 += u64::from(removed > 0);
                of_message_queues.1 += removed;
                continue;
            }
            if removed > 0 && !has_folder {
                scene.findings.add(Kind::TopicRemoved, scene.log.shown.clone(), None, format!("{removed} of {topic}"));
            }
            let has_settings = !TopicName::trusted(topic).is_light();
            if *has_folder && has_settings && listed.is_some_and(|listed| !listed.contains(topic)) {
                scene.findings.add(Kind::TopicUnknown, "config/topics.json", None, format!("{topic} is not in it"));
            }
        }
        if let (queues @ 1.., messages) = of_message_queues {
            let what = format!("{messages} messages of {queues} message queues");
            scene.findings.add(Kind::MessageQueuesRemoved, scene.log.shown.clone(), None, what);
        }
    }

    /// Tells of folders of all queues that are missing.
    fn judge_folders(&self, scene: &mut Scene) {
        let lanes = (0..self.files.count()).filter(|&queue| self.files.is_lane(queue)).count();
        let queues = self.files.count() - lanes;
        if self.files.lacks_topics() && queues > 0 {
            let what = format!("the log has messages of {queues} queues");
            scene.findings.add(Kind::QueuesMissing, folder_of_all(false), None, what);
        }
        if self.files.lost_message_queues() && lanes > 0 {
            let what = format!("the log has messages of {lanes} lanes of message queues");
            scene.findings.add(Kind::QueuesMissing, folder_of_all(true), None, what);
        }
    }

    /// One past the last offset of a queue; `None` if there is no such queue.
    pub(crate) fn end_of(&self, topic: &str, queue: u32) -> Option<u64> {
        self.progress.get(self.files.find(topic, queue)?).map(|progress| progress.end)
    }

    /// Topics that have a queue with files or messages.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &str> {
        self.files.topics().iter().map(|(name, _)| name.as_str()).filter(|name| !is_message_queue(name))
    }

    /// Message queues that have a lane with files or messages.
    pub(crate) fn message_queue_count(&self) -> u64 {
        self.files.topics().iter().filter(|(name, _)| is_message_queue(name)).count() as u64
    }

    /// Queues of topics, and lanes of message queues, that have files.
    pub(crate) fn queue_counts(&self) -> (u64, u64) {
        let with_files = (0..self.files.count()).filter(|&queue| self.files.has_files(queue));
        with_files.fold((0, 0), |(queues, lanes), queue| match self.files.is_lane(queue) {
            false => (queues + 1, lanes),
            true => (queues, lanes + 1),
        })
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.progress.iter().map(|progress| progress.entries).sum()
    }

    pub(crate) const fn gone_count(&self) -> u64 {
        self.gone
    }
}

fn is_message_queue(topic: &str) -> bool {
    MessageQueueName::number_of(topic).is_some()
}

/// Stands where there is no record (any more).
fn is_blank(entry: Entry) -> bool {
    entry.log_offset == GAP.log_offset && entry.size == GAP.size
}

/// Stands where a record was damaged when the entries were made.
const fn is_lost(entry: Entry) -> bool {
    entry.size == 1
}
