//! The segments as they are: opened for reading alone, whatever is wrong with them.

use std::path::Path;
use std::sync::Arc;

use base::LogOffset;
use format::index_rules::is_in_place;
use format::record::{self, Kind as RecordKind, Parts, Record};
use storage::StorageError;
use storage::disk::Disk;
use storage::segment::Segment;

use crate::finding::{Findings, Kind};
use crate::spans::Spans;

/// Segments in order of their log offsets; there may be gaps between them.
pub(crate) struct LogFiles {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Path of the directory as findings name it.
    pub(crate) shown: String,
    /// Stretches no segment holds, between the first and the last.
    pub(crate) gaps: Spans,
}

impl LogFiles {
    /// Opens what is in `directory`; a segment has `usual` bytes if any has, or else what most have.
    pub(crate) fn open(
        disk: &Disk,
        root: &Path,
        directory: &Path,
        usual: u64,
        findings: &mut Findings,
    ) -> Result<Self, StorageError> {
        let shown = super::shown(root, directory);
        let mut log = Self { segments: Vec::new(), shown, gaps: Spans::default() };
        for name in disk.list(directory)? {
            let base = name.parse::<u64>().ok().filter(|base| name.len() == 20 && *base <= i64::MAX as u64);
            let file = log.file(&name);
            let Some(base) = base else {
                let kind = if name.ends_with(".set-aside") { Kind::SetAside } else { Kind::UnknownFile };
                findings.add(kind, file, None, "no segment's name");
                continue;
            };
            match Segment::open_read_only(disk, directory, base) {
                Ok(segment) if segment.end() == base => findings.add(Kind::SegmentEmpty, file, None, "0 bytes"),
                Ok(segment) => log.segments.push(Arc::new(segment)),
                Err(error) => findings.add(Kind::Unreadable, file, None, error.to_string()),
            }
        }
        log.judge(usual, findings);
        Ok(log)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.shown)
    }

    /// Name of a segment's file, and the position of a log offset in it.
    pub(crate) fn locate(&self, offset: u64) -> (String, Option<u64>) {
        match self.segment_at(offset) {
            Some(segment) => {
                (self.file(&storage::segment::file_name(segment.base())), Some(segment.position(LogOffset(offset))))
            }
            None => (self.shown.clone(), None),
        }
    }

    /// Sizes and gaps.
    fn judge(&mut self, usual: u64, findings: &mut Findings) {
        let sizes = self.segments.iter().map(|segment| segment.end() - segment.base());
        let Some(size) = super::usual_size(sizes, usual) else { return };
        let mut expected = self.segments.first().map_or(0, |first| first.base());
        if !expected.is_multiple_of(size) {
            let what = format!("begins at {expected}, no multiple of the segment size {size}");
            findings.add(Kind::SegmentMissing, self.locate(expected).0, None, what);
        }
        for segment in &self.segments {
            let (file, _) = self.locate(segment.base());
            if segment.base() > expected {
                let what = format!("no segment holds log offsets {expected} to {}", segment.base());
                let missing = self.file(&storage::segment::file_name(expected));
                findings.add(Kind::SegmentMissing, missing, None, what);
                self.gaps.add(expected, segment.base());
            } else if segment.base() < expected {
                findings.add(Kind::SegmentSize, file.clone(), None, "overlaps the segment before it");
            }
            let found = segment.end() - segment.base();
            if found != size {
                findings.add(Kind::SegmentSize, file, None, format!("{found} bytes where a segment has {size}"));
                self.gaps.add(segment.end(), segment.base().saturating_add(size));
            }
            expected = segment.base().saturating_add(size);
        }
        // Segments that overlap cannot be read as one log: the later one counts.
        let bases: Vec<u64> = self.segments.iter().map(|segment| segment.base()).collect();
        let mut later = bases.iter().copied().skip(1);
        self.segments.retain(|segment| later.next().is_none_or(|next| segment.end() <= next));
    }

    /// First byte kept.
    pub(crate) fn first(&self) -> u64 {
        self.segments.first().map_or(0, |first| first.base())
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end() - segment.base()).sum()
    }

    pub(crate) fn segment_at(&self, offset: u64) -> Option<&Arc<Segment>> {
        let after = self.segments.partition_point(|segment| segment.base() <= offset);
        after.checked_sub(1).and_then(|at| self.segments.get(at)).filter(|segment| segment.contains(offset))
    }

    /// Whether the segment that holds `offset`, or ends there, is cut short: what is wrong at its end is told already.
    pub(crate) fn is_cut(&self, offset: u64) -> bool {
        let after = self.segments.partition_point(|segment| segment.base() <= offset);
        let segment = after.checked_sub(1).and_then(|at| self.segments.get(at));
        segment.is_some_and(|segment| segment.end() >= offset && self.gaps.contains(segment.end()))
    }

    /// Looks at the record at a log offset, if one is there.
    pub(crate) fn look<T>(&self, offset: u64, judge: impl FnOnce(&Record<'_>) -> T) -> Option<T> {
        let segment = self.segment_at(offset)?;
        let (position, left) = (segment.position(LogOffset(offset)), segment.end() - offset);
        let mut bytes = vec![0; left.min(512) as usize];
        segment.file().read_at(&mut bytes, position).ok()?;
        let Ok(RecordKind::Record(size)) = record::kind_at(&bytes) else { return None };
        if size as u64 > left {
            return None;
        }
        if size > bytes.len() {
            bytes.resize(size, 0);
            segment.file().read_at(&mut bytes, position).ok()?;
        }
        Parts::split(&bytes).ok().filter(|parts| is_in_place(parts, offset))?;
        Record::decode(&bytes).ok().as_ref().map(judge)
    }

    /// What is at a log offset, in words.
    pub(crate) fn describe(&self, offset: u64) -> String {
        self.look(offset, |record| {
            format!("the record of {} queue {} offset {}", record.topic, record.queue.0, record.queue_offset.0)
        })
        .unwrap_or_else(|| "no record".to_owned())
    }
}
