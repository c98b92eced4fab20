//! Reads the log from front to back, past whatever is damaged, to its end.

use format::index_rules::is_in_place;
use format::record::{self, Kind as RecordKind, Parts, Record};
use storage::segment::Segment;
use storage::window::{WINDOW_SIZE, Window};

use crate::log_files::LogFiles;

/// What the walk comes by.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A record at the log offset that it names.
    Record {
        /// The record.
        record: &'a Record<'a>,
        /// Whether its body is what was stored.
        is_intact: bool,
    },
    /// No record, though one follows at `to`.
    Broken {
        from: u64,
        to: u64,
        /// Whether there is nothing at all at `from`.
        is_zero: bool,
        why: String,
    },
    /// A filler that says another size than it takes up.
    Filler { at: u64, says: u64, takes: u64 },
    /// This much was read.
    Read { done: u64 },
}

/// How the log ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// First byte after the last record.
    pub(crate) offset: u64,
    /// What is there, if not zeroes.
    pub(crate) why: Option<String>,
    /// One past the last byte in use after it, if any is.
    pub(crate) used_until: Option<u64>,
}

/// What the log holds at one offset.
enum Content {
    Record(usize),
    Filler(u64),
    Nothing { is_zero: bool, why: String },
}

/// Walks the records of a log.
pub(crate) struct Walk<'a> {
    pub(crate) log: &'a LogFiles,
    /// From here on a record with a wrong body and nothing behind it was never finished.
    pub(crate) unsure_from: u64,
}

impl Walk<'_> {
    /// Calls `visit` with everything from `from` on, until it says that it has enough (false).
    pub(crate) fn run(&self, from: u64, visit: &mut dyn FnMut(Event<'_>) -> bool) -> End {
        let mut offset = from.max(self.log.first());
        let mut done = 0;
        for segment in &self.log.segments {
            if segment.end() <= offset {
                continue;
            }
            offset = offset.max(segment.base());
            let mut window = Window::new(segment);
            while offset < segment.end() {
                if done / WINDOW_SIZE as u64 != offset / WINDOW_SIZE as u64 {
                    done = offset;
                    if !visit(Event::Read { done }) {
                        return End { offset, ..End::default() };
                    }
                }
                match self.step(&mut window, offset, visit) {
                    Step::To(next) => offset = next,
                    Step::End(end) => return end,
                }
            }
        }
        End { offset, ..End::default() }
    }

    fn step(&self, window: &mut Window<'_>, offset: u64, visit: &mut dyn FnMut(Event<'_>) -> bool) -> Step {
        match content_at(window, offset) {
            Content::Record(size) => {
                let next = offset + size as u64;
                if offset >= self.unsure_from && !is_intact(window, offset, size) {
                    // The broker may be writing it just now, or was when it was killed.
                    window.forget();
                    if !is_intact(window, offset, size) && self.next_whole(window, next).is_none() {
                        return Step::End(self.end(offset, Some("a record with a wrong checksum".to_owned())));
                    }
                }
                let Ok(bytes) = window.at(offset, size) else { return Step::To(next) };
                let Ok(record) = Record::decode(bytes) else { return Step::To(next) };
                let is_intact = record.body_is_intact();
                if visit(Event::Record { record: &record, is_intact }) {
                    Step::To(next)
                } else {
                    Step::End(End { offset: next, ..End::default() })
                }
            }
            Content::Filler(says) => {
                let takes = window.segment.end() - offset;
                if says != takes {
                    visit(Event::Filler { at: offset, says, takes });
                }
                Step::To(window.segment.end())
            }
            Content::Nothing { is_zero, why } => {
                let Some(to) = self.next_whole(window, offset + 1) else {
                    return Step::End(self.end(offset, (!is_zero).then_some(why)));
                };
                // Written since it was looked at?
                window.forget();
                if matches!(content_at(window, offset), Content::Nothing { .. }) {
                    visit(Event::Broken { from: offset, to, is_zero, why });
                    return Step::To(to);
                }
                Step::To(offset)
            }
        }
    }

    /// The next log offset from `from` on with a record, in this segment or a later one.
    fn next_whole(&self, window: &mut Window<'_>, from: u64) -> Option<u64> {
        if let Some(found) = search(window, from) {
            return Some(found);
        }
        let later = self.log.segments.iter().filter(|segment| segment.base() >= window.segment.end());
        later.into_iter().find_map(|segment| search(&mut Window::new(segment), segment.base()))
    }

    fn end(&self, offset: u64, why: Option<String>) -> End {
        let touched = self.log.segments.iter().filter(|segment| segment.end() > offset);
        let used_until = touched.filter_map(|segment| used_until(segment, offset.max(segment.base()))).next_back();
        End { offset, why, used_until }
    }
}

/// Where the walk goes on.
enum Step {
    To(u64),
    End(End),
}

fn content_at(window: &mut Window<'_>, offset: u64) -> Content {
    let left = window.segment.end() - offset;
    if left < record::FILLER_SIZE as u64 {
        return Content::Filler(left);
    }
    let head = match window.at(offset, record::FILLER_SIZE) {
        Ok(head) => head,
        Err(error) => return Content::Nothing { is_zero: false, why: error.to_string() },
    };
    let why = match record::kind_at(head) {
        Ok(RecordKind::End) => return Content::Nothing { is_zero: true, why: "zeroes".to_owned() },
        Ok(RecordKind::Filler(says)) => return Content::Filler(says as u64),
        Ok(RecordKind::Record(size)) if size as u64 > left => {
            format!("a record of {size} bytes where {left} are left")
        }
        Ok(RecordKind::Record(size)) => match window.at(offset, size).map(Parts::split) {
            Ok(Ok(parts)) if is_in_place(&parts, offset) => return Content::Record(size),
            Ok(Ok(parts)) if parts.log_offset().0 != offset => {
                format!("a record that says it is at log offset {}", parts.log_offset())
            }
            Ok(Ok(_)) => "a record whose topic, queue or properties cannot be".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    Content::Nothing { is_zero: false, why }
}

fn is_intact(window: &mut Window<'_>, offset: u64, size: usize) -> bool {
    window.at(offset, size).is_ok_and(|bytes| Parts::split(bytes).is_ok_and(|parts| parts.body_is_intact()))
}

/// The same in one segment.
fn search(window: &mut Window<'_>, from: u64) -> Option<u64> {
    let end = window.segment.end();
    let is_record = |window: &mut Window<'_>, at| Ok(matches!(content_at(window, at), Content::Record(_)));
    // Bad sectors are passed over, and nothing is found where reading is not possible at all.
    window.search(from..end, is_record, |_, _, _| Ok(true)).ok().flatten()
}

/// One past the last byte from `from` on that is not zero.
fn used_until(segment: &Segment, from: u64) -> Option<u64> {
    let mut window = Window::new(segment);
    let (mut at, mut used) = (from, None);
    while at < segment.end() {
        let Some(data) = segment.file().next_data(at - segment.base()) else { break };
        at = at.max(segment.base() + data);
        if at >= segment.end() {
            break;
        }
        let Ok(bytes) = window.at(at, WINDOW_SIZE) else { break };
        used = bytes.iter().rposition(|&byte| byte != 0).map(|last| at + last as u64 + 1).or(used);
        at += bytes.len().max(1) as u64;
    }
    used
}
