//! Bytes of a master's log as they come, until whole records of them are there.

use base::LogOffset;
use base::limits::RECORD_SIZE_MAX;
use bytes::{Bytes, BytesMut};
use format::record::{self, FILLER_SIZE, Kind};

/// Largest filler: what is left of a segment into which the next record did not fit.
const FILLER_SIZE_MAX: usize = RECORD_SIZE_MAX + FILLER_SIZE;

/// Bytes that follow each other in a log.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    start: LogOffset,
    bytes: BytesMut,
    /// How many of them are whole records and fillers.
    whole: usize,
}

impl Gathered {
    /// None yet; the first is the one at `start`.
    pub(super) fn from(start: LogOffset) -> Self {
        Self { start, ..Self::default() }
    }

    /// Whether there is a whole record, or filler.
    pub(super) const fn has_whole(&self) -> bool {
        self.whole > 0
    }

    /// How many there are.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds what follows. An error is for people: where something begins that is no record.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(bytes);
        while let Some(rest) = self.bytes.get(self.whole..).filter(|rest| rest.len() >= FILLER_SIZE) {
            let wrong = |problem| format!("at {} of the master's log: {problem}", self.start.after(self.whole as u64));
            let size = match record::kind_at(rest).map_err(|error| wrong(error.to_string()))? {
                Kind::Record(size) => size,
                Kind::Filler(size) if (FILLER_SIZE..=FILLER_SIZE_MAX).contains(&size) => size,
                Kind::Filler(size) => return Err(wrong(format!("a filler of {size} bytes"))),
                Kind::End => return Err(wrong("zeroes where a record was to begin".to_owned())),
            };
            if size > rest.len() {
                break;
            }
            self.whole += size;
        }
        Ok(())
    }

    /// Takes the whole records and fillers that are there, with where the first of them begins.
    pub(super) fn take_whole(&mut self) -> Option<(LogOffset, Bytes)> {
        let size = std::mem::take(&mut self.whole);
        if size == 0 {
            return None;
        }
        let rest = BytesMut::from(&self.bytes[size..]);
        let mut whole = std::mem::replace(&mut self.bytes, rest);
        whole.truncate(size);
        let start = self.start;
        self.start = start.after(size as u64);
        Some((start, whole.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Now, Timestamp};
    use format::state;

    fn record() -> Vec<u8> {
        let mut bytes = BytesMut::new();
        let now = Now { wall: Timestamp(1), ..Now::default() };
        state::draft(b"body", &[], ([127, 0, 0, 1], 1).into(), now.wall).encode(&mut bytes);
        bytes.to_vec()
    }

    fn filler(size: usize) -> Vec<u8> {
        let mut filler = record::filler(size).to_vec();
        filler.resize(size, 0);
        filler
    }

    #[test]
    fn records_are_given_once_they_are_whole_however_their_bytes_come() {
        let log = [record(), filler(20), record()].concat();
        for step in 1..log.len() {
            let mut gathered = Gathered::from(LogOffset(100));
            let mut given = Vec::new();
            for piece in log.chunks(step) {
                gathered.push(piece).expect("records");
                if let Some((start, bytes)) = gathered.take_whole() {
                    assert_eq!(start.0, 100 + given.len() as u64);
                    given.extend_from_slice(&bytes);
                    assert!([record().len(), record().len() + 20, log.len()].contains(&given.len()));
                }
            }
            assert_eq!((given, gathered.size()), (log.clone(), 0));
        }
    }

    #[test]
    fn what_is_no_record_is_told_with_its_position() {
        for bad in [vec![0; 8], vec![0xff; 8], record::filler(0).to_vec()] {
            let mut gathered = Gathered::from(LogOffset(1000));
            gathered.push(&record()).expect("a record");
            let problem = gathered.push(&bad).expect_err("no record");
            assert!(problem.starts_with(&format!("at {} of", 1000 + record().len())), "{problem}");
        }
    }
}
