//! What a check can find: the one table of kinds, and the bounded list of what was found.

use std::collections::BTreeMap;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing is wrong.
    Note,
    /// Not as it should be: look at it. Nothing that was stored is lost by it, as far as can be told.
    Warning,
    /// Something that was stored is lost, wrong or cannot be found.
    Damage,
}

macro_rules! kinds {
    ($($name:ident, $severity:ident, $text:literal, $meaning:literal, $remedy:literal;)*) => {
        /// Kinds of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $meaning] $name,)*
        }

        impl Kind {
            /// How bad it is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// Its name, for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it means for a user.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// What to do.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }
        }
    };
}

kinds! {
    // The log.
    BodyDamaged, Damage, "body-damaged",
        "This message is not served: consumers pass it over.",
        "Restore the segment from a copy or a replica if the message matters; otherwise leave it.";
    RecordDamaged, Damage, "record-damaged",
        "The messages stored here are lost to consumers; those after them are whole.",
        "Restore the segment from a copy or a replica.";
    LogBroken, Damage, "log-broken",
        "The next start takes this for the end of the log: it cuts off all messages that follow.",
        "Copy the directory before anything is started on it, then restore the segment from a copy or a replica.";
    LogEndsEarly, Damage, "log-ends-early",
        "Messages that were safely on the disk are gone from the end of the log.",
        "Restore the last segments from a copy or a replica; ask what happened to the disk.";
    SegmentMissing, Damage, "segment-missing",
        "Its messages are lost, and no start opens the log without it.",
        "Restore it from a copy, or move all later segments away, and consumequeue and index with them.";
    SegmentSize, Damage, "segment-size",
        "No start opens the log with it; what lay beyond its end is lost.",
        "Restore it from a copy.";
    Unreadable, Damage, "unreadable",
        "The system does not give these bytes: what is in them can neither be served nor checked.",
        "Look at the system's log and at the disk; copy what can be read.";
    UnfinishedEnd, Warning, "unfinished-end",
        "A write was under way when the process was killed; the next start cuts it off. Nothing of it was promised to survive.",
        "Nothing, unless messages were acknowledged only moments before: then keep a copy.";
    LeftoverAfterEnd, Warning, "leftover-after-end",
        "Bytes lie after the end of the log although the last process stopped in good order; nobody reads them.",
        "The next start clears them; keep a copy if you wonder where they come from.";
    FillerSize, Warning, "filler-size",
        "The mark that ends the segment has another length than the rest of it; it is passed over all the same.",
        "Nothing, if everything else is whole; otherwise suspect the disk.";
    SegmentEmpty, Note, "segment-empty",
        "A segment file without bytes: its making was interrupted.",
        "Nothing: the next start removes it.";
    // Queues.
    QueueFileSize, Damage, "queue-file-size",
        "Entries of the queue are cut off, so its messages cannot all be read.",
        "Start Sluice: it moves the file to set-aside and makes all entries again from the log.";
    QueueFileMissing, Damage, "queue-file-missing",
        "The messages listed in it cannot be read from the queue.",
        "Stop, remove all of consumequeue, or of sluice/queues if the file is there, and start Sluice before anything is sent: it makes all entries again from the log.";
    EntryMissing, Damage, "entry-missing",
        "The message is whole in the log, but its queue does not list it: consumers never get it.",
        "Stop, remove all of consumequeue, or of sluice/queues if the file is there, and start Sluice before anything is sent: it makes all entries again from the log.";
    EntryElsewhere, Damage, "entry-elsewhere",
        "Consumers that reach this offset of the queue get no message, or not the right one.",
        "Stop, remove all of consumequeue, or of sluice/queues if the file is there, and start Sluice before anything is sent: it makes all entries again from the log.";
    EntryWrong, Damage, "entry-wrong",
        "The entry points at the right record and says something else about it, so it is passed over or wrongly filtered.",
        "Stop, remove all of consumequeue, or of sluice/queues if the file is there, and start Sluice before anything is sent: it makes all entries again from the log.";
    EntryBeyondEnd, Damage, "entry-beyond-end",
        "The queue lists messages that the log does not hold (any more).",
        "Restore the end of the log from a copy if there is one; otherwise a start of Sluice clears these entries.";
    DueTime, Warning, "due-time",
        "A delayed message is due at another time than its level says.",
        "If the broker runs with other delay levels, say so with --set delay.levels=... or -c FILE; otherwise as for a wrong entry.";
    QueuesMissing, Warning, "queues-missing",
        "The folder of all queues of topics, or of all message queues, is gone: nothing is listed in them.",
        "Start Sluice: it makes all entries again from the log. (A Java broker may keep them in rocksdbstore: then let it write files first.)";
    QueueUnlisted, Warning, "queue-unlisted",
        "The log holds messages of a queue that has no files: consumers do not get them.",
        "Nothing if the topic was removed and made again; otherwise stop, remove all of consumequeue, or of sluice/queues if the queue is there, and start Sluice before anything is sent.";
    EntriesBehind, Note, "entries-behind",
        "The newest messages are not yet listed in files, or are listed before they are whole in the log.",
        "Nothing: the broker does it within seconds, or the next start does.";
    EarlierLife, Note, "earlier-life",
        "Messages of a topic that was removed and made again; nobody gets them.",
        "Nothing: they go when their segments do.";
    TopicRemoved, Note, "topic-removed",
        "Messages of a topic that was removed; nobody gets them.",
        "Nothing: they go when their segments do.";
    MessageQueuesRemoved, Note, "message-queues-removed",
        "Messages that were routed to message queues which were removed since; nobody gets them there.",
        "Nothing: they go when their segments do.";
    RoutedUnreadable, Damage, "routed-unreadable",
        "A routed message is what was stored, and says nothing that this Sluice can read: no queue lists it.",
        "If it is of a newer version, start the newer Sluice again; otherwise report it.";
    // Keys.
    KeyFileSize, Damage, "key-file-size",
        "Messages cannot be found by the keys in it.",
        "Start Sluice: it moves the files to set-aside and makes them again from the log. Give --set storage.index_slots and storage.index_entries if the store has its own.";
    KeyHeader, Damage, "key-header",
        "The head of a key-index file does not agree with what is in it, so look-ups by key may not find everything.",
        "Stop, remove all of index and start Sluice: it makes it again from the log.";
    KeySlots, Damage, "key-slots",
        "Some messages cannot be found by their keys: the way to them is broken.",
        "Stop, remove all of index and start Sluice: it makes it again from the log.";
    KeyElsewhere, Damage, "key-elsewhere",
        "A look-up by that key does not find the message.",
        "Stop, remove all of index and start Sluice: it makes it again from the log.";
    KeysMissing, Warning, "keys-missing",
        "These messages have keys and cannot be found by them.",
        "Nothing if the index was switched off meanwhile; otherwise stop, remove all of index and start Sluice.";
    KeysBehind, Note, "keys-behind",
        "The keys of the newest messages are not yet in files.",
        "Nothing: the broker does it within seconds, or the next start does.";
    NoKeyIndex, Note, "no-key-index",
        "There is no key index: messages are not found by key.",
        "Nothing if the index is switched off; otherwise the next start makes it.";
    // Documents.
    DocumentBroken, Damage, "document-broken",
        "The document cannot be read and neither can its backup: no start goes without what it holds.",
        "Restore it from a copy, or remove both to start without what they hold.";
    DocumentFallsBack, Warning, "document-falls-back",
        "The document cannot be read; the next start takes its backup, which lacks the last changes.",
        "Look at both before the next start.";
    BackupBroken, Note, "backup-broken",
        "The document is whole, its backup is not.",
        "Nothing: it is replaced with the next change.";
    OffsetBeyondQueue, Warning, "offset-beyond-queue",
        "The group is set to go on after the queue's end, so it may miss messages until the queue has grown so far.",
        "Reset the offset of that group.";
    OffsetOfNoTopic, Note, "offset-of-no-topic",
        "A group has an offset in a topic or queue that does not exist.",
        "Nothing.";
    DelayBeyondQueue, Warning, "delay-beyond-queue",
        "Delayed messages of that level may not be delivered until so many more were sent.",
        "Stop the broker and lower the number in delayOffset.json; some messages may then come twice.";
    TopicsMissing, Warning, "topics-missing",
        "topics.json and its backup are missing: the next start makes the topics again with default settings.",
        "Restore them from a copy, or check the settings after the start.";
    TopicUnknown, Warning, "topic-unknown",
        "The topic has queues and is not in topics.json: the next start makes it again with default settings.",
        "Check its settings after the start.";
    TopicsEmpty, Note, "topics-empty",
        "Topics without a single message.",
        "Nothing.";
    // State.
    StateRecordDamaged, Damage, "state-record-damaged",
        "Changes of topics, groups or offsets are lost: a start passes the record over and takes those before and after it.",
        "Restore the segment from a copy or a replica, or look after the start whether settings are as they should be.";
    StateNewer, Warning, "state-newer",
        "A newer Sluice has written it: this one does not start on the directory.",
        "Start the newer Sluice again.";
    StateUnreadable, Damage, "state-unreadable",
        "No start goes on while the disk cannot read the file: queues that only it tells of would be removed with their messages.",
        "Try again once the disk can be read; else restore the file from a copy, or copy what can be read of it: whole frames at its beginning count.";
    SnapshotUnreadable, Damage, "snapshot-unreadable",
        "No start goes on with this snapshot, though its checksums are right.",
        "Keep a copy and report it; without the file `state` a start takes documents and log.";
    SnapshotDamaged, Warning, "snapshot-damaged",
        "The next start takes what of the snapshot is whole, or else the documents, and reads the log from there on.",
        "Nothing after a power cut; otherwise suspect the disk.";
    StateLost, Damage, "state-lost",
        "Changes of topics, groups or offsets are lost: they were in segments that are gone, and nothing else has them.",
        "Restore the file `state` or the segments from a copy, or look after the start whether settings are as they should be.";
    StateAhead, Warning, "state-ahead",
        "The log has lost its end: the file tells of changes that were in it. The next start goes back to what the log says, as far as older frames are there.",
        "Restore the last segments from a copy if there is one.";
    ExportBehind, Note, "export-behind",
        "The document is not up to date, as after a kill: a Java broker that is started now goes by it.",
        "Nothing for Sluice; before a Java broker is started, `sluice store export`.";
    ExportDiffers, Warning, "export-differs",
        "The document says something else than the state, which has not changed since: Sluice goes by the state, a Java broker by the document.",
        "If it was edited on purpose, remove `sluiceLogPosition` from it: the next start takes it over. Otherwise `sluice store export`.";
    // The directory.
    CheckpointDamaged, Warning, "checkpoint-damaged",
        "It is not known up to where the log was safe: after a killed process all of it is read.",
        "Nothing: the next start writes it anew.";
    CheckpointMissing, Warning, "checkpoint-missing",
        "After a killed process the whole log is read, and damage in it cuts it there.",
        "Restore it from where the directory comes from, if it was copied.";
    NotStopped, Note, "not-stopped",
        "The last process did not stop in good order: the next start reads the end of the log again.",
        "Nothing.";
    SetAside, Note, "set-aside",
        "An earlier start could not use this file and moved it out of the way.",
        "Look at it, then remove it: it is never read again.";
    UnknownFile, Note, "unknown-file",
        "A file that does not belong here; it is not looked at.",
        "Remove it if nobody knows it.";
    NotLookedAt, Note, "not-looked-at",
        "This part of a Java broker's store was not checked.",
        "Nothing.";
    InUse, Note, "in-use",
        "A broker works on the directory: what is newer than its last checkpoint is not judged.",
        "For a full check, stop the broker.";
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// File, relative to the data directory.
    pub file: String,
    /// Byte in that file.
    pub position: Option<u64>,
    /// What exactly.
    pub what: String,
}

impl Serialize for Finding {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut out = serializer.serialize_struct("Finding", 7)?;
        out.serialize_field("severity", &self.kind.severity())?;
        out.serialize_field("kind", &self.kind)?;
        out.serialize_field("file", &self.file)?;
        out.serialize_field("position", &self.position)?;
        out.serialize_field("what", &self.what)?;
        out.serialize_field("meaning", self.kind.meaning())?;
        out.serialize_field("remedy", self.kind.remedy())?;
        out.end()
    }
}

/// Findings of one kind that are kept; of the rest only the number is.
pub const FINDINGS_PER_KIND_MAX: u64 = 100;

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Finding>,
    counts: BTreeMap<Kind, u64>,
}

impl Findings {
    pub(crate) fn add(&mut self, kind: Kind, file: impl Into<String>, position: Option<u64>, what: impl Into<String>) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= FINDINGS_PER_KIND_MAX {
            self.kept.push(Finding { kind, file: file.into(), position, what: what.into() });
        }
    }

    /// The findings kept, worst first, and how many there were of each kind.
    pub(crate) fn finish(mut self) -> (Vec<Finding>, BTreeMap<Kind, u64>) {
        self.kept.sort_by_key(|finding| std::cmp::Reverse(finding.kind.severity()));
        (self.kept, self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_bounded_counted_and_sorted() {
        let mut findings = Findings::default();
        for number in 0..250 {
            findings.add(Kind::TopicsEmpty, "a", Some(number), "");
        }
        findings.add(Kind::BodyDamaged, "b", None, "");
        let (kept, counts) = findings.finish();
        assert_eq!((kept.len(), kept[0].kind), (101, Kind::BodyDamaged));
        assert_eq!((counts[&Kind::TopicsEmpty], counts[&Kind::BodyDamaged]), (250, 1));
    }
}
