//! Everything that was seen of a story, line by line: for people, or only as a number that two runs have in common.

use std::hash::{DefaultHasher, Hash, Hasher};

use storage::disk::FaultyDisk;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Trace {
    hasher: DefaultHasher,
    /// The lines, if anybody wants to read them.
    lines: Option<Vec<String>>,
}

impl Trace {
    /// One that keeps its lines.
    pub fn kept() -> Self {
        Self { lines: Some(Vec::new()), ..Self::default() }
    }

    /// Something was seen.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        line.hash(&mut self.hasher);
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// A disk comes to its end: all that was done to it was seen.
    pub(crate) fn end_disk(&mut self, disk: &FaultyDisk) {
        disk.trace().hash(&mut self.hasher);
    }

    /// Two traces with one number are one trace.
    pub fn number(&self) -> u64 {
        self.hasher.finish()
    }

    /// The lines that were kept.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
