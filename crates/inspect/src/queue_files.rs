//! The files of all queues: which there are, and entries out of them, a page at a time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base::QueueId;
use base::TopicName;
use format::entry_form::EntryForm;
use format::queue_entry::{ENTRY_SIZE, Entry};
use storage::disk::{Disk, DiskFile};
use storage::segment::file_name;
use storage::{folder_of_all, folder_of_topic, topic_of_folder};

use crate::finding::{Findings, Kind};

/// Memory for pages of entries, shared by all queues.
const PAGES_SIZE: usize = 32 * 1024 * 1024;

/// Entries of a page at most: 64 KiB.
const PAGE_ENTRIES_MAX: usize = 3276;

/// Entries of a page at least.
const PAGE_ENTRIES_MIN: usize = 16;

/// Names of one queue and its files.
#[derive(Debug)]
pub(crate) struct QueueFolder {
    pub(crate) topic: u32,
    pub(crate) queue: u32,
    form: EntryForm,
    /// First byte of each file, in order.
    starts: Vec<u64>,
    page_at: u64,
    page: Vec<u8>,
}

/// Every queue there is, or that the log speaks of.
pub(crate) struct QueueFiles {
    disk: Disk,
    root: PathBuf,
    /// Whether there is a folder of queues of topics, and of message queues, or none was ever made.
    is_there: [bool; 2],
    /// Of queues of topics, and of lanes.
    file_sizes: [u64; 2],
    page_entries: u64,
    topics: Vec<(String, bool)>,
    topic_numbers: HashMap<String, u32>,
    numbers: HashMap<(u32, u32), usize>,
    folders: Vec<QueueFolder>,
    /// Files that lack entries for a reason told already: (queue, first byte).
    bad: Vec<(usize, u64)>,
}

impl QueueFiles {
    /// Lists the queues of the data directory `root`. Files of topics' queues, and of lanes, usually have so many entries.
    pub(crate) fn open(disk: &Disk, root: &Path, usual_entries: [u64; 2], findings: &mut Findings) -> Self {
        // What the disk cannot tell is not missing: that it cannot be listed is told of below.
        let has = |folder: &str| disk.exists(&root.join(folder)).unwrap_or(true);
        let own_folder = Path::new(folder_of_all(true)).parent().and_then(Path::to_str).unwrap_or_default();
        let mut files = Self {
            disk: disk.clone(),
            root: root.to_owned(),
            is_there: [has(folder_of_all(false)), has(folder_of_all(true)) || !has(own_folder)],
            file_sizes: [0; 2],
            page_entries: 0,
            topics: Vec::new(),
            topic_numbers: HashMap::new(),
            numbers: HashMap::new(),
            folders: Vec::new(),
            bad: Vec::new(),
        };
        for (of_message_queues, usual_entries) in [false, true].into_iter().zip(usual_entries) {
            let mut sizes = Vec::new();
            files.list_all(of_message_queues, &mut sizes, findings);
            let entry_size = EntryForm::size_of_all(of_message_queues);
            let usual = usual_entries.saturating_mul(entry_size);
            let size = super::usual_size(sizes.iter().map(|(_, _, size)| *size), usual).unwrap_or(usual);
            files.file_sizes[usize::from(of_message_queues)] = size - size % entry_size;
            files.judge(&sizes, findings);
        }
        files.bad.sort_unstable();
        let pages = PAGES_SIZE / ENTRY_SIZE / files.folders.len().max(1);
        files.page_entries = pages.clamp(PAGE_ENTRIES_MIN, PAGE_ENTRIES_MAX) as u64;
        files
    }

    fn list_all(&mut self, of_message_queues: bool, sizes: &mut Vec<(usize, u64, u64)>, findings: &mut Findings) {
        let (disk, all) = (self.disk.clone(), folder_of_all(of_message_queues));
        let last = if of_message_queues { u32::from(u8::MAX) } else { u32::MAX };
        for folder in list(&disk, &self.root.join(all), all, findings) {
            let shown = format!("{all}/{folder}");
            let Some(topic) = topic_of_folder(&folder, of_message_queues) else {
                findings.add(
                    Kind::UnknownFile,
                    shown,
                    None,
                    "no name of a topic or message queue that has its folder there",
                );
                continue;
            };
            for name in list(&disk, &self.root.join(&shown), &shown, findings) {
                match name.parse::<u32>() {
                    Ok(queue) if queue.to_string() == name && queue <= last => {
                        self.list_queue(topic.as_str(), queue, sizes, findings);
                    }
                    _ => findings.add(Kind::UnknownFile, format!("{shown}/{name}"), None, "no queue's number"),
                }
            }
        }
    }

    fn list_queue(&mut self, topic: &str, queue: u32, sizes: &mut Vec<(usize, u64, u64)>, findings: &mut Findings) {
        let number = self.queue(topic, queue);
        if let Some(folder) = self.folders.get(number)
            && let Some(topic) = self.topics.get_mut(folder.topic as usize)
        {
            topic.1 = true;
        }
        let shown = format!("{}/{queue}", folder_of_topic(topic));
        let directory = self.root.join(&shown);
        for name in list(&self.disk, &directory, &shown, findings) {
            let start = name.parse::<u64>().ok().filter(|start| name.len() == 20 && *start <= i64::MAX as u64);
            let file = format!("{shown}/{name}");
            let size = self.disk.open_read_only(&directory.join(&name)).and_then(|file| file.size());
            match (start, size) {
                (None, _) => findings.add(Kind::UnknownFile, file, None, "no name of a queue's file"),
                (_, Err(error)) => findings.add(Kind::Unreadable, file, None, error.to_string()),
                (Some(start), Ok(size)) => {
                    sizes.push((number, start, size));
                    if let Some(folder) = self.folders.get_mut(number) {
                        folder.starts.push(start);
                    }
                }
            }
        }
    }

    /// Sizes, names and gaps.
    fn judge(&mut self, sizes: &[(usize, u64, u64)], findings: &mut Findings) {
        let mut last: Option<(usize, u64)> = None;
        for &(queue, start, size) in sizes {
            let (file, file_size) = (self.shown(queue, start), self.file_size(queue));
            if file_size == 0 || start % file_size != 0 {
                let what = format!("its name is no multiple of the file size {file_size}");
                findings.add(Kind::QueueFileSize, file, None, what);
                self.bad.push((queue, start));
                if let Some(folder) = self.folders.get_mut(queue) {
                    folder.starts.retain(|&known| known != start);
                }
                continue;
            }
            if size != file_size {
                let what = format!("{size} bytes where a file of a queue has {file_size}");
                findings.add(Kind::QueueFileSize, file, None, what);
                self.bad.push((queue, start));
            }
            let before = last.filter(|(of, _)| *of == queue).map(|(_, before)| before + file_size);
            if let Some(missing) = before.filter(|missing| *missing < start) {
                let what = format!(
                    "entries {} to {} have no file",
                    missing / self.entry_size(queue),
                    start / self.entry_size(queue)
                );
                findings.add(Kind::QueueFileMissing, self.shown(queue, missing), None, what);
            }
            last = Some((queue, start));
        }
    }

    /// Number of a queue, known or new.
    pub(crate) fn queue(&mut self, topic: &str, queue: u32) -> usize {
        let topic = match self.topic_numbers.get(topic) {
            Some(&number) => number,
            None => {
                let number = self.topics.len() as u32;
                self.topics.push((topic.to_owned(), false));
                self.topic_numbers.insert(topic.to_owned(), number);
                number
            }
        };
        let next = self.folders.len();
        let number = *self.numbers.entry((topic, queue)).or_insert(next);
        if number == next {
            let form = EntryForm::of(&TopicName::trusted(self.topic_name(topic)), QueueId(queue));
            self.folders.push(QueueFolder { topic, queue, form, starts: Vec::new(), page_at: 0, page: Vec::new() });
        }
        number
    }

    /// Number of a queue, if it is known.
    pub(crate) fn find(&self, topic: &str, queue: u32) -> Option<usize> {
        let topic = self.topic_numbers.get(topic)?;
        self.numbers.get(&(*topic, queue)).copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.folders.len()
    }

    /// Topic and number of a queue.
    pub(crate) fn name(&self, queue: usize) -> (&str, u32) {
        self.folders.get(queue).map_or(("", 0), |folder| (self.topic_name(folder.topic), folder.queue))
    }

    fn topic_name(&self, topic: u32) -> &str {
        self.topics.get(topic as usize).map_or("", |(name, _)| name)
    }

    /// Whether the folder of all message queues is gone that was there.
    pub(crate) const fn lost_message_queues(&self) -> bool {
        !self.is_there[1]
    }

    /// Whether there is no folder of topics' queues.
    pub(crate) const fn lacks_topics(&self) -> bool {
        !self.is_there[0]
    }

    /// Topics, and whether each has a folder.
    pub(crate) fn topics(&self) -> &[(String, bool)] {
        &self.topics
    }

    pub(crate) fn topic_of(&self, queue: usize) -> usize {
        self.folders.get(queue).map_or(usize::MAX, |folder| folder.topic as usize)
    }

    /// Whether a queue is a lane of a message queue.
    pub(crate) fn is_lane(&self, queue: usize) -> bool {
        self.folders.get(queue).is_some_and(|folder| folder.form.has_checksum())
    }

    /// Whether the folder is there that has all queues of its kind.
    pub(crate) fn is_there(&self, queue: usize) -> bool {
        self.is_there[usize::from(self.is_lane(queue))]
    }

    /// Bytes of an entry of a queue.
    fn entry_size(&self, queue: usize) -> u64 {
        EntryForm::size_of_all(self.is_lane(queue))
    }

    fn file_size(&self, queue: usize) -> u64 {
        self.file_sizes[usize::from(self.is_lane(queue))]
    }

    pub(crate) fn has_files(&self, queue: usize) -> bool {
        self.folders.get(queue).is_some_and(|folder| !folder.starts.is_empty())
    }

    /// File and byte of an entry.
    pub(crate) fn locate(&self, queue: usize, position: u64) -> (String, Option<u64>) {
        let byte = position.saturating_mul(self.entry_size(queue));
        let within = byte.checked_rem(self.file_size(queue)).unwrap_or(0);
        (self.shown(queue, byte - within), Some(within))
    }

    /// A file as findings name it.
    fn shown(&self, queue: usize, start: u64) -> String {
        let (topic, number) = self.name(queue);
        format!("{}/{number}/{}", folder_of_topic(topic), file_name(start))
    }

    /// Whether entries may be missing there for a reason told already.
    pub(crate) fn is_excused(&self, queue: usize, position: u64) -> bool {
        let byte = position.saturating_mul(self.entry_size(queue));
        let start = byte - byte.checked_rem(self.file_size(queue)).unwrap_or(0);
        let Some(folder) = self.folders.get(queue) else { return false };
        let is_between = folder.starts.first().is_some_and(|first| *first < start)
            && folder.starts.last().is_some_and(|last| start < *last)
            && folder.starts.binary_search(&start).is_err();
        is_between || self.bad.binary_search(&(queue, start)).is_ok() || folder.starts.is_empty() && self.has_bad(queue)
    }

    fn has_bad(&self, queue: usize) -> bool {
        self.bad.iter().any(|(of, _)| *of == queue)
    }

    /// The entry at a position; fast if positions come in order.
    pub(crate) fn entry(&mut self, queue: usize, position: u64) -> Option<Entry> {
        let (page_entries, has_file) = (self.page_entries, self.file_of(queue, position).is_some());
        if !has_file {
            return None;
        }
        let folder = self.folders.get(queue)?;
        let (form, size) = (folder.form, folder.form.size() as usize);
        let count = (folder.page.len() / size) as u64;
        if position < folder.page_at || position >= folder.page_at + count {
            let page = self.read(queue, position, page_entries);
            let folder = self.folders.get_mut(queue)?;
            folder.page_at = position;
            folder.page = page;
        }
        let folder = self.folders.get(queue)?;
        let at = (position - folder.page_at) as usize * size;
        folder.page.get(at..at + size).and_then(|bytes| form.decode(position, bytes))
    }

    /// The entry at any position.
    pub(crate) fn entry_far(&self, queue: usize, position: u64) -> Option<Entry> {
        let form = self.folders.get(queue)?.form;
        form.decode(position, &self.read(queue, position, 1))
    }

    /// First byte of the file an entry is in, if there is such a file.
    fn file_of(&self, queue: usize, position: u64) -> Option<u64> {
        let byte = position.checked_mul(self.entry_size(queue))?;
        let start = byte - byte.checked_rem(self.file_size(queue))?;
        self.folders.get(queue)?.starts.binary_search(&start).ok().map(|_| start)
    }

    fn open_file(&self, queue: usize, start: u64) -> Option<DiskFile> {
        self.disk.open_read_only(&self.root.join(self.shown(queue, start))).ok()
    }

    /// Bytes of up to `count` entries of one file; fewer at its end. What cannot be read is told as missing entries.
    fn read(&self, queue: usize, position: u64, count: u64) -> Vec<u8> {
        let Some(start) = self.file_of(queue, position) else { return Vec::new() };
        let entry_size = self.entry_size(queue);
        let within = position * entry_size - start;
        let Some(file) = self.open_file(queue, start) else { return Vec::new() };
        let end = file.size().unwrap_or(0).min(self.file_size(queue));
        let size = end.saturating_sub(within).min(count * entry_size);
        let mut bytes = vec![0; (size - size % entry_size) as usize];
        if file.read_at(&mut bytes, within).is_err() { Vec::new() } else { bytes }
    }

    /// The next position from `position` on that has an entry, with it.
    pub(crate) fn next_entry(&mut self, queue: usize, mut position: u64) -> Option<(u64, Entry)> {
        loop {
            let start = match self.file_of(queue, position) {
                Some(start) => start,
                None => {
                    let byte = position.checked_mul(self.entry_size(queue))?;
                    let starts = &self.folders.get(queue)?.starts;
                    let next = *starts.iter().find(|start| **start > byte)?;
                    position = next / self.entry_size(queue);
                    next
                }
            };
            if let Some(entry) = self.entry(queue, position) {
                return Some((position, entry));
            }
            // Nothing at this position: pass over what was never written.
            position = self.after_hole(queue, start, position)?;
        }
    }

    /// A later position that may have an entry: all positions between have none.
    fn after_hole(&self, queue: usize, start: u64, position: u64) -> Option<u64> {
        let (folder, entry_size) = (self.folders.get(queue)?, self.entry_size(queue));
        let next_file = (start + self.file_size(queue)) / entry_size;
        let from = ((position - folder.page_at) * entry_size) as usize;
        let rest = folder.page.get(from..).unwrap_or_default();
        if let Some(used) = rest.iter().position(|&byte| byte != 0) {
            return Some(position + (used as u64 / entry_size).max(1));
        }
        let within = (position * entry_size - start) + rest.len() as u64;
        let data = self.open_file(queue, start).and_then(|file| {
            let data = file.next_data(within)?;
            (data < file.size().unwrap_or(0)).then_some(data)
        });
        let found = data.map_or(next_file, |data| (start + data) / entry_size);
        Some(found.max(position + 1).min(next_file))
    }
}

fn list(disk: &Disk, path: &Path, shown: &str, findings: &mut Findings) -> Vec<String> {
    disk.list(path).unwrap_or_else(|error| {
        findings.add(Kind::Unreadable, shown, None, error.to_string());
        Vec::new()
    })
}
