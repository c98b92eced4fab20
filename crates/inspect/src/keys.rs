//! Every entry of the key index against the record it points at, in the same pass over the log.

use std::path::{Path, PathBuf};

use format::hash::key_hash;
use format::key_index::{IndexEntry, Shape, is_file_name};
use format::properties::names;
use format::record::{Record, system_flag};
use storage::disk::Disk;

use crate::finding::{Findings, Kind};
use crate::key_file::KeyFile;
use crate::scene::Scene;

/// Entries looked through for those of a record before the ones in front are taken for wrong.
const AHEAD_MAX: usize = 32;

/// Records in a row whose keys are not indexed.
#[derive(Debug)]
struct Missing {
    from: u64,
    to: u64,
    records: u64,
}

/// The key index while the log is read.
pub(crate) struct Keys {
    disk: Disk,
    directory: PathBuf,
    /// Names still to be read, the next one last.
    names: Vec<String>,
    shape: Shape,
    current: Option<KeyFile>,
    /// Whether there is a file of keys at all.
    is_there: bool,
    is_wanted: bool,
    /// A file could not be used: missing keys are told already.
    is_excused: bool,
    /// The number of the entry that was found to be right although it points further on.
    right: Option<u32>,
    hashes: Vec<u32>,
    missing: Option<Missing>,
    behind: u64,
    pub(crate) files: u64,
    pub(crate) entries: u64,
}

impl Keys {
    /// Lists `index` of the data directory `root`.
    pub(crate) fn open(disk: &Disk, root: &Path, shape: Shape, is_wanted: bool, findings: &mut Findings) -> Self {
        let directory = root.join("index");
        let found = disk.list(&directory).unwrap_or_else(|error| {
            findings.add(Kind::Unreadable, "index", None, error.to_string());
            Vec::new()
        });
        let mut keys = Self {
            disk: disk.clone(),
            directory,
            names: Vec::new(),
            shape,
            current: None,
            is_there: false,
            is_wanted,
            is_excused: false,
            right: None,
            hashes: Vec::new(),
            missing: None,
            behind: 0,
            files: 0,
            entries: 0,
        };
        for name in found {
            if is_file_name(&name) {
                keys.names.push(name);
            } else {
                findings.add(Kind::UnknownFile, format!("index/{name}"), None, "no name of a key file");
            }
        }
        keys.judge_sizes(findings);
        keys.names.reverse();
        keys.files = keys.names.len() as u64;
        // What the disk cannot tell is not missing.
        keys.is_there = disk.exists(&keys.directory).unwrap_or(true);
        keys
    }

    fn judge_sizes(&mut self, findings: &mut Findings) {
        let size_of = |name: &String| self.disk.open_read_only(&self.directory.join(name)).and_then(|file| file.size());
        let sizes: Vec<_> = self.names.iter().map(size_of).collect();
        let Some(usual) = super::usual_size(sizes.iter().flatten().copied(), self.shape.file_size()) else { return };
        let mut names = Vec::new();
        for (name, size) in std::mem::take(&mut self.names).into_iter().zip(sizes) {
            match size {
                Ok(size) if size == usual => names.push(name),
                Ok(size) => {
                    let what = format!("{size} bytes where a key file has {usual}");
                    findings.add(Kind::KeyFileSize, format!("index/{name}"), None, what);
                    self.is_excused = true;
                }
                Err(error) => findings.add(Kind::Unreadable, format!("index/{name}"), None, error.to_string()),
            }
        }
        self.names = names;
    }

    /// The next entry of the index, opening the next file and closing the one before.
    fn next(&mut self, scene: &mut Scene) -> Option<(u32, IndexEntry)> {
        loop {
            if let Some(found) = self.current.as_mut().and_then(|current| current.peek(0)) {
                return Some(found);
            }
            let name = self.names.pop()?;
            self.close(false, scene);
            let shown = format!("index/{name}");
            match KeyFile::open(&self.disk, &self.directory.join(&name), shown.clone(), self.shape) {
                Ok(Some(file)) => {
                    self.right = None;
                    self.current = Some(file);
                }
                Ok(None) => {
                    self.is_excused = true;
                    let what = "its header does not fit its entries, whatever the number of slots";
                    scene.findings.add(Kind::KeyHeader, shown, Some(0), what);
                }
                Err(error) => {
                    self.is_excused = true;
                    scene.findings.add(Kind::Unreadable, shown, None, error.to_string());
                }
            }
        }
    }

    fn close(&mut self, is_newest: bool, scene: &mut Scene) {
        if let Some(current) = self.current.take() {
            current.finish(is_newest && scene.unsure_from < u64::MAX, &mut scene.findings);
        }
    }

    fn take(&mut self) {
        if let Some(current) = &mut self.current {
            current.take();
            self.entries += 1;
        }
    }

    /// Judges what the index has of `record`.
    pub(crate) fn record(&mut self, record: &Record<'_>, scene: &mut Scene) {
        let log_offset = record.log_offset.0;
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(scene.rules.apply_to(record).key_hashes());
        let mut wrong = Vec::new();
        while let Some((number, entry)) = self.next(scene) {
            let is_own = entry.log_offset == log_offset;
            let is_known = is_own && (take_one(&mut hashes, entry.hash) || is_of_tag(entry, record));
            if !is_known && hashes.is_empty() {
                // It may stand where an entry of the next record should.
                break;
            }
            let is_right = if is_own {
                is_known
            } else if entry.log_offset < log_offset {
                // What a start found twice is there twice.
                scene.is_excused(entry.log_offset) || is_right(entry, scene)
            } else if self.is_wrong(number, entry, log_offset, scene) {
                false
            } else {
                break;
            };
            if self.leave_unsure(is_right, entry, log_offset, scene) {
                break;
            }
            if is_own {
                self.judge_time(number, entry, record, scene);
            }
            match (is_right, is_own) {
                (true, _) => {}
                (false, true) => wrong.push((number, entry)),
                (false, false) => {
                    let own = take_one(&mut hashes, entry.hash).then_some(log_offset);
                    self.elsewhere(number, entry, own, scene);
                }
            }
            self.take();
        }
        for (number, entry) in wrong {
            // One of its keys has a wrong hash: one fault, not two.
            hashes.pop();
            self.elsewhere(number, entry, None, scene);
        }
        if !hashes.is_empty() {
            self.not_indexed(record, scene);
        }
        self.hashes = hashes;
    }

    /// Whether an entry that points further on than `log_offset` should not do so.
    fn is_wrong(&mut self, number: u32, entry: IndexEntry, log_offset: u64, scene: &Scene) -> bool {
        if self.right == Some(number) {
            return false;
        }
        let Some(current) = &mut self.current else { return false };
        let is_out_of_place =
            (1..AHEAD_MAX).map_while(|ahead| current.peek(ahead)).any(|(_, later)| later.log_offset == log_offset);
        if is_out_of_place {
            return true;
        }
        if is_right(entry, scene) {
            self.right = Some(number);
            return false;
        }
        true
    }

    /// Where the log is not sure from `log_offset` on, an entry of the newest file that is not right or does not continue the file
    /// is what a power cut left there: whatever the header counts, a start makes it and those after it again.
    fn leave_unsure(&mut self, is_right: bool, entry: IndexEntry, log_offset: u64, scene: &Scene) -> bool {
        let Some(current) = self.current.as_mut().filter(|_| self.names.is_empty()) else { return false };
        // An entry of zeroes seems to point at the first record of the log.
        let is_unsure = if entry.is_unwritten() { scene.unsure_from < u64::MAX } else { scene.may_lag(log_offset) };
        let is_left = is_unsure && !(is_right && current.is_continued_by(entry));
        if is_left {
            current.leave_rest();
        }
        is_left
    }

    fn judge_time(&self, number: u32, entry: IndexEntry, record: &Record<'_>, scene: &mut Scene) {
        let Some(current) = &self.current else { return };
        let since = record.store_timestamp.0.saturating_sub(current.header.first_time) / 1000;
        if u64::from(entry.seconds) != since.min(i32::MAX as u64) && current.header.first_time > 0 {
            let what = format!("entry {number} says {} s after the file's first, its record {since} s", entry.seconds);
            scene.findings.add(Kind::KeyElsewhere, current.shown.clone(), Some(current.byte_of(number)), what);
        }
    }

    fn elsewhere(&self, number: u32, entry: IndexEntry, own: Option<u64>, scene: &mut Scene) {
        let Some(current) = &self.current else { return };
        let own = own.map(|own| format!("; the record with that key is at {own}")).unwrap_or_default();
        let there = scene.log.describe(entry.log_offset);
        let what =
            format!("entry {number} points at log offset {}, which has no such key: {there}{own}", entry.log_offset);
        scene.findings.add(Kind::KeyElsewhere, current.shown.clone(), Some(current.byte_of(number)), what);
    }

    fn not_indexed(&mut self, record: &Record<'_>, scene: &mut Scene) {
        let log_offset = record.log_offset.0;
        let is_after_index = self.next(scene).is_none();
        if self.is_excused || !self.is_wanted || self.files == 0 && !self.is_there {
            self.behind += u64::from(self.is_wanted);
        } else if is_after_index && scene.may_lag(log_offset) {
            self.behind += 1;
        } else {
            let missing = self.missing.get_or_insert(Missing { from: log_offset, to: log_offset, records: 0 });
            missing.to = log_offset;
            missing.records += 1;
            return;
        }
        self.tell_missing(scene);
    }

    fn tell_missing(&mut self, scene: &mut Scene) {
        let Some(Missing { from, to, records }) = self.missing.take() else { return };
        let (file, position) = scene.log.locate(from);
        let what = format!("{records} records from log offset {from} to {to} lack keys in the index");
        scene.findings.add(Kind::KeysMissing, file, position, what);
    }

    /// The log has ended at `log_end`: judges the entries nobody took.
    pub(crate) fn finish(&mut self, log_end: u64, scene: &mut Scene) {
        while let Some((number, entry)) = self.next(scene) {
            let is_behind = entry.log_offset >= log_end && scene.is_unsure(log_end);
            let is_right = is_behind || scene.is_excused(entry.log_offset) || is_right(entry, scene);
            if self.leave_unsure(is_right, entry, log_end, scene) {
                break;
            }
            if !is_right {
                self.elsewhere(number, entry, None, scene);
            }
            self.take();
        }
        self.close(true, scene);
        self.tell_missing(scene);
        if self.behind == 0 || self.is_excused {
            return;
        }
        if self.is_there {
            scene.findings.add(Kind::KeysBehind, "index", None, format!("{} records", self.behind));
        } else {
            scene.findings.add(Kind::NoKeyIndex, "index", None, format!("{} records have keys", self.behind));
        }
    }
}

/// Takes one `hash` out of `hashes`, if it is there.
fn take_one(hashes: &mut Vec<u32>, hash: u32) -> bool {
    let found = hashes.iter().position(|known| *known == hash);
    found.map(|at| hashes.swap_remove(at)).is_some()
}

/// Whether an entry stands for the tag of a record: Java brokers of 5.4 index those too, but of none that was rolled back.
fn is_of_tag(entry: IndexEntry, record: &Record<'_>) -> bool {
    let is_rolled_back = record.system_flag & system_flag::TRANSACTION_MASK == system_flag::TRANSACTION_ROLLBACK;
    let tag = record.property(names::TAGS).filter(|_| !is_rolled_back);
    tag.is_some_and(|tag| key_hash(record.topic, &format!("T#{tag}")) == entry.hash)
}

/// Whether the record an entry points at has a key of its hash.
fn is_right(entry: IndexEntry, scene: &Scene) -> bool {
    let found = scene.log.look(entry.log_offset, |record| {
        let mut hashes = scene.rules.apply_to(record).key_hashes();
        hashes.any(|hash| hash == entry.hash) || is_of_tag(entry, record)
    });
    found == Some(true)
}
