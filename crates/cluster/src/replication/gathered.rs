//! Bytes of a master's log as they come, until whole records of them are there.

use base::LogOffset;
use base::limits::RECORD_SIZE_MAX;
use bytes::{Bytes, BytesMut};
use format::record::{self, FILLER_SIZE, Kind};

/// Largest filler: what is left of a segment into which the next record did not fit.
const FILLER_SIZE_MAX: usize = RECORD_SIZE_MAX + FILLER_SIZE;

/// Bytes that follow each other in a log, in buffers that the log lends.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    start: LogOffset,
    /// Whole records and fillers in buffers that are full.
    ready: Vec<Bytes>,
    ready_size: usize,
    /// Being filled.
    buffer: BytesMut,
    /// How many of its bytes are whole records and fillers.
    whole: usize,
    /// What it had room for when it came.
    lent: usize,
}

impl Gathered {
    /// None yet; the first is the one at `start`.
    pub(super) fn from(start: LogOffset) -> Self {
        Self { start, ..Self::default() }
    }

    /// Whether there is a whole record, or filler.
    pub(super) const fn has_whole(&self) -> bool {
        self.ready_size + self.whole > 0
    }

    /// How many there are.
    pub(super) fn size(&self) -> usize {
        self.ready_size + self.buffer.len()
    }

    /// How many can be added. If there is room for none, it goes on in another buffer.
    pub(super) fn room(&self) -> usize {
        self.buffer.capacity() - self.buffer.len()
    }

    /// What the next buffer has to have room for at least: the record that has begun, or its size and kind, which it begins with.
    pub(super) fn wanted_room(&self) -> usize {
        match self.buffer.get(self.whole..).map(record::kind_at) {
            Some(Ok(Kind::Record(size) | Kind::Filler(size))) => size,
            _ => FILLER_SIZE,
        }
    }

    /// Goes on in `next`, which is empty and has the room that is wanted. Gives the old buffer back, and how much of it was used.
    pub(super) fn go_on_in(&mut self, mut next: BytesMut) -> (BytesMut, usize) {
        self.set_whole_aside();
        let lent = std::mem::replace(&mut self.lent, next.capacity());
        next.extend_from_slice(&self.buffer);
        let mut old = std::mem::replace(&mut self.buffer, next);
        old.clear();
        let used = lent - old.capacity();
        (old, used)
    }

    /// Adds what follows, for which there is room. An error is for people: where something begins that is no record.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.buffer.extend_from_slice(bytes);
        while let Some(rest) = self.buffer.get(self.whole..).filter(|rest| rest.len() >= FILLER_SIZE) {
            let at = self.ready_size + self.whole;
            let wrong = |problem| format!("at {} of the master's log: {problem}", self.start.after(at as u64));
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

    /// Takes the whole records and fillers that are there, with where the first of them begins: in pieces of whole ones.
    pub(super) fn take_whole(&mut self) -> Option<(LogOffset, Vec<Bytes>)> {
        self.set_whole_aside();
        let size = std::mem::take(&mut self.ready_size);
        let start = self.start;
        self.start = start.after(size as u64);
        (size > 0).then(|| (start, std::mem::take(&mut self.ready)))
    }

    fn set_whole_aside(&mut self) {
        if self.whole > 0 {
            self.ready_size += self.whole;
            self.ready.push(self.buffer.split_to(std::mem::take(&mut self.whole)).freeze());
        }
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

    /// Adds bytes, in buffers with room for so many.
    fn push(gathered: &mut Gathered, mut bytes: &[u8], buffer_size: usize) -> Result<(), String> {
        while !bytes.is_empty() {
            if gathered.room() == 0 {
                let wanted = gathered.wanted_room().max(buffer_size);
                drop(gathered.go_on_in(BytesMut::with_capacity(wanted)));
            }
            let (now, later) = bytes.split_at(bytes.len().min(gathered.room()));
            gathered.push(now)?;
            bytes = later;
        }
        Ok(())
    }

    #[test]
    fn records_are_given_once_they_are_whole_however_their_bytes_come() {
        let log = [record(), filler(20), record()].concat();
        for (step, buffer_size) in (1..=log.len()).flat_map(|step| [(step, 1), (step, 50), (step, 1000)]) {
            let mut gathered = Gathered::from(LogOffset(100));
            let mut given = Vec::new();
            for piece in log.chunks(step) {
                push(&mut gathered, piece, buffer_size).expect("records");
                let has_whole = gathered.has_whole();
                let taken = gathered.take_whole();
                assert_eq!(taken.is_some(), has_whole);
                let Some((start, pieces)) = taken else { continue };
                assert_eq!(start.0, 100 + given.len() as u64);
                for bytes in pieces {
                    given.extend_from_slice(&bytes);
                    assert!([record().len(), record().len() + 20, log.len()].contains(&given.len()));
                }
            }
            assert_eq!((given, gathered.size()), (log.clone(), 0));
        }
    }

    #[test]
    fn of_a_buffer_that_is_given_back_so_much_was_used() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.go_on_in(BytesMut::with_capacity(1000)).1, 0);
        let records = [record(), record()].concat();
        gathered.push(&records).expect("there is room");
        gathered.push(&record()[..10]).expect("there is room");
        let (start, pieces) = gathered.take_whole().expect("two");
        assert_eq!((start, pieces.concat()), (LogOffset(0), records.clone()));
        let (old, used) = gathered.go_on_in(BytesMut::with_capacity(1000));
        assert_eq!((old.len(), old.capacity(), used), (0, 1000 - records.len(), records.len()));
        assert_eq!(gathered.size(), 10);
    }

    #[test]
    fn what_is_no_record_is_told_with_its_position() {
        for bad in [vec![0; 8], vec![0xff; 8], record::filler(0).to_vec()] {
            let mut gathered = Gathered::from(LogOffset(1000));
            push(&mut gathered, &record(), 1).expect("a record");
            let problem = push(&mut gathered, &bad, 1).expect_err("no record");
            assert!(problem.starts_with(&format!("at {} of", 1000 + record().len())), "{problem}");
        }
    }
}
