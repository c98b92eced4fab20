//! The records that one read returns: long ones shared with the log's memory, short ones copied next to each other.
//!
//! Copying a short record costs less than sharing it, and a reply of many short ones is a single slice of the socket write.
//!
//! **Always holds**: whoever keeps old records keeps at most `PINNED_TIMES_MAX` times their size in memory. What is shared is kept whole, so
//! of a source of which less is wanted the long ones are copied too. A recent batch keeps a block of many batches
//! ([`buffers`](crate::buffers)), which the recent end of the log mostly keeps anyway: of it less than `RECENT_SHARED_MIN` is copied.
//! Whoever keeps answers for long has to copy what is shared.

use bytes::Bytes;

use crate::answer_memory::AnswerMemory;
use crate::buffers::BLOCK_SIZE;

/// Records shorter than this are copied.
pub(crate) const SHARED_SIZE_MIN: usize = 512;

/// Of a recent batch less than this is copied. More is what consumers that keep up ask for, whose answers are gone at once.
const RECENT_SHARED_MIN: usize = BLOCK_SIZE / 512;

/// A source is shared if its size is at most this many times that of the records in it.
const PINNED_TIMES_MAX: usize = 8;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location {
    source: Source,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// There is none, or it is damaged.
    Missing,
    Copied,
    /// In `shared`, at this index.
    Shared(usize),
}

const MISSING: Location = Location { source: Source::Missing, start: 0, end: 0 };

/// The records found for a list of entries.
#[derive(Clone, Debug)]
pub struct Records {
    /// One for each entry.
    locations: Vec<Location>,
    copied: Bytes,
    shared: Vec<Shared>,
    count: usize,
}

/// Memory that long records lie in.
#[derive(Clone, Debug)]
struct Shared {
    bytes: Bytes,
    /// Bytes of the records in it.
    wanted: usize,
    /// Bytes that stay in memory for it for as long as it is shared.
    kept: usize,
}

impl Shared {
    /// Whether it is too much to be kept for what is wanted of it.
    fn keeps_too_much(&self) -> bool {
        self.kept / PINNED_TIMES_MAX > self.wanted
    }
}

impl Records {
    /// Number of records found.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The record of each entry, whole, in the entries' order; `None` where there is none or it is damaged.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.locations.iter().map(|location| bytes_at(*location, &self.copied, &self.shared))
    }

    /// Appends the records to `pieces` in order, adjacent ones as one piece.
    pub fn into_pieces(self, pieces: &mut Vec<Bytes>) {
        let mut add = |run: Location| match run.source {
            Source::Missing => {}
            Source::Copied => pieces.push(self.copied.slice(run.start..run.end)),
            Source::Shared(number) => {
                pieces.extend(self.shared.get(number).map(|shared| shared.bytes.slice(run.start..run.end)));
            }
        };
        let mut run = MISSING;
        for location in self.locations.into_iter().filter(|location| location.source != Source::Missing) {
            if location.source == run.source && location.start == run.end {
                run.end = location.end;
            } else {
                add(std::mem::replace(&mut run, location));
            }
        }
        add(run);
    }
}

/// Collects records for a list of entries.
#[derive(Debug)]
pub(crate) struct Collection<'a> {
    memory: &'a AnswerMemory,
    locations: Vec<Location>,
    copied: Vec<u8>,
    shared: Vec<Shared>,
    count: usize,
}

impl<'a> Collection<'a> {
    /// For entries of records of these sizes.
    pub(crate) fn new(memory: &'a AnswerMemory, sizes: impl ExactSizeIterator<Item = usize>) -> Self {
        let locations = vec![MISSING; sizes.len()];
        let copied = memory.take(sizes.filter(|size| *size < SHARED_SIZE_MIN).sum());
        Self { memory, locations, copied, shared: Vec::new(), count: 0 }
    }

    /// Adds the record of entry `number`, which lies at `start..start + size` of a recent batch.
    pub(crate) fn put_recent(&mut self, number: usize, batch: &Bytes, start: usize, size: usize) {
        self.put_from((batch, RECENT_SHARED_MIN * PINNED_TIMES_MAX), number, start, size);
    }

    /// Adds the record of entry `number`, which lies at `start..start + size` of `source`, which is all of its memory.
    pub(crate) fn put(&mut self, number: usize, source: &Bytes, start: usize, size: usize) {
        self.put_from((source, source.len()), number, start, size);
    }

    fn put_from(&mut self, (source, kept): (&Bytes, usize), number: usize, start: usize, size: usize) {
        let end = start + size;
        let Some(bytes) = source.get(start..end) else { return };
        let location = if size < SHARED_SIZE_MIN {
            self.copied.extend_from_slice(bytes);
            Location { source: Source::Copied, start: self.copied.len() - size, end: self.copied.len() }
        } else {
            // Neighbours usually have the same source.
            let is_same =
                |last: &&mut Shared| (last.bytes.as_ptr(), last.bytes.len()) == (source.as_ptr(), source.len());
            match self.shared.last_mut().filter(is_same) {
                Some(last) => last.wanted += size,
                None => self.shared.push(Shared { bytes: source.clone(), wanted: size, kept }),
            }
            Location { source: Source::Shared(self.shared.len() - 1), start, end }
        };
        self.put_location(number, location);
    }

    /// Adds the record of entry `number`, of `size` bytes, which `read` appends to the buffer it is given.
    pub(crate) fn read<E>(
        &mut self,
        number: usize,
        size: usize,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        if size < SHARED_SIZE_MIN {
            let start = self.copied.len();
            if let Err(error) = read(&mut self.copied) {
                self.copied.truncate(start);
                return Err(error);
            }
            self.put_location(number, Location { source: Source::Copied, start, end: self.copied.len() });
        } else {
            let mut bytes = Vec::with_capacity(size);
            read(&mut bytes)?;
            self.put(number, &bytes.into(), 0, size);
        }
        Ok(())
    }

    fn put_location(&mut self, number: usize, location: Location) {
        if let Some(slot) = self.locations.get_mut(number) {
            debug_assert_eq!(*slot, MISSING, "each is put once");
            *slot = location;
            self.count += 1;
        }
    }

    /// Removes the record of entry `number`.
    pub(crate) fn take_back(&mut self, number: usize) {
        if let Some(slot) = self.locations.get_mut(number).filter(|slot| **slot != MISSING) {
            let taken = std::mem::replace(slot, MISSING);
            self.count -= 1;
            if let Source::Shared(shared) = taken.source
                && let Some(shared) = self.shared.get_mut(shared)
            {
                shared.wanted -= taken.end - taken.start;
            }
        }
    }

    /// The record of entry `number`, if there is one.
    pub(crate) fn get(&self, number: usize) -> Option<&[u8]> {
        bytes_at(*self.locations.get(number)?, &self.copied, &self.shared)
    }

    /// Numbers of the entries whose record is missing.
    pub(crate) fn missing(&self) -> Vec<usize> {
        if self.count == self.locations.len() {
            return Vec::new();
        }
        (0..self.locations.len()).filter(|number| self.locations.get(*number) == Some(&MISSING)).collect()
    }

    pub(crate) fn finish(mut self) -> Records {
        if self.shared.iter().any(Shared::keeps_too_much) {
            self.copy_few();
        }
        let (locations, shared) = (std::mem::take(&mut self.locations), std::mem::take(&mut self.shared));
        let copied = self.memory.lend(std::mem::take(&mut self.copied));
        Records { locations, copied, shared, count: self.count }
    }

    /// Copies the long records of sources that would keep too much.
    fn copy_few(&mut self) {
        let few = self.shared.iter().filter(|shared| shared.keeps_too_much()).map(|shared| shared.wanted).sum();
        if self.copied.capacity() - self.copied.len() < few {
            let mut larger = self.memory.take(self.copied.len() + few);
            larger.extend_from_slice(&self.copied);
            self.memory.give_back(std::mem::replace(&mut self.copied, larger));
        }
        for location in &mut self.locations {
            if let Source::Shared(number) = location.source
                && let Some(shared) = self.shared.get(number).filter(|shared| shared.keeps_too_much())
                && let Some(bytes) = shared.bytes.get(location.start..location.end)
            {
                let start = self.copied.len();
                self.copied.extend_from_slice(bytes);
                *location = Location { source: Source::Copied, start, end: self.copied.len() };
            }
        }
        for shared in self.shared.iter_mut().filter(|shared| shared.keeps_too_much()) {
            shared.bytes = Bytes::new();
        }
    }
}

impl Drop for Collection<'_> {
    /// Of a read that found not all in memory and is done again.
    fn drop(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.copied));
    }
}

fn bytes_at<'a>(location: Location, copied: &'a [u8], shared: &'a [Shared]) -> Option<&'a [u8]> {
    let source = match location.source {
        Source::Missing => return None,
        Source::Copied => copied,
        Source::Shared(number) => &shared.get(number)?.bytes,
    };
    source.get(location.start..location.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = SHARED_SIZE_MIN;

    /// Bytes that tell where they are from.
    fn source(number: u8) -> Bytes {
        vec![number; 4 * LONG].into()
    }

    fn pieces_of(collection: Collection<'_>) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        collection.finish().into_pieces(&mut pieces);
        pieces
    }

    #[test]
    fn short_records_make_one_piece_wherever_they_come_from() {
        let memory = AnswerMemory::default();
        let mut collection = Collection::new(&memory, [10, 20, 30].into_iter());
        collection.put(0, &source(1), 100, 10);
        collection.put(1, &source(2), 7, 20);
        let read = collection.read(2, 30, |bytes| {
            bytes.extend_from_slice(&[3; 30]);
            Ok::<(), ()>(())
        });
        assert_eq!((read, collection.missing()), (Ok(()), vec![]));
        assert_eq!(pieces_of(collection), [[vec![1; 10], vec![2; 20], vec![3; 30]].concat()]);
    }

    #[test]
    fn long_records_stay_where_they_are_in_one_piece_if_they_follow_each_other() {
        let (memory, one, other) = (AnswerMemory::default(), source(1), source(2));
        let mut collection = Collection::new(&memory, [LONG; 5].into_iter());
        for (number, (source, start)) in
            [(&one, 0), (&one, LONG), (&one, 3 * LONG), (&other, 0), (&other, LONG)].into_iter().enumerate()
        {
            collection.put(number, source, start, LONG);
        }
        let pieces = pieces_of(collection);
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [2 * LONG, LONG, 2 * LONG]);
        assert_eq!(pieces[1].as_ptr(), one[3 * LONG..].as_ptr());
    }

    #[test]
    fn of_a_source_of_which_little_is_wanted_long_records_are_copied_and_it_is_let_go() {
        let memory = AnswerMemory::default();
        let large: Bytes = (0..64 * LONG).map(|at| at as u8).collect::<Vec<_>>().into();
        let collection = |wanted: usize| {
            let mut collection = Collection::new(&memory, [LONG; 64].into_iter());
            (0..wanted).for_each(|number| collection.put(number, &large, 64 * number, LONG));
            collection
        };
        let at_the_bound = 64 / PINNED_TIMES_MAX;
        for (wanted, is_shared) in [(1, false), (at_the_bound - 1, false), (at_the_bound, true), (64, true)] {
            let records = collection(wanted).finish();
            assert_eq!(large.is_unique(), !is_shared, "{wanted}");
            let found: Vec<_> = records.iter().flatten().map(<[u8]>::to_vec).collect();
            let expected: Vec<_> = (0..wanted).map(|number| large[64 * number..][..LONG].to_vec()).collect();
            assert_eq!(found, expected);
        }
        let mut taken_back = collection(at_the_bound);
        taken_back.take_back(0);
        assert_eq!((taken_back.finish().count(), large.is_unique()), (at_the_bound - 1, true));
    }

    #[test]
    fn of_a_recent_batch_much_is_shared_and_little_is_copied_for_it_keeps_a_block() {
        let (memory, large) = (AnswerMemory::default(), RECENT_SHARED_MIN);
        let batch = Bytes::from(vec![7; 2 * large]);
        for (size, is_shared) in [(100, false), (LONG, false), (large - 1, false), (large, true)] {
            let mut collection = Collection::new(&memory, [10, size].into_iter());
            collection.put(0, &Bytes::from_static(&[5; 10]), 0, 10);
            collection.put_recent(1, &batch, 10, size);
            let records = collection.finish();
            assert_eq!(records.iter().flatten().collect::<Vec<_>>(), [&[5; 10][..], &batch[10..10 + size]]);
            assert_eq!(batch.is_unique(), !is_shared, "{size}");
        }
    }

    #[test]
    fn what_was_taken_for_a_read_that_is_given_up_is_used_again() {
        let memory = AnswerMemory::default();
        let size = 100;
        let address = {
            let collection = Collection::new(&memory, vec![size; 1000].into_iter());
            collection.copied.as_ptr()
        };
        let again = Collection::new(&memory, vec![size; 1000].into_iter());
        assert_eq!(again.copied.as_ptr(), address);
    }

    #[test]
    fn what_is_missing_or_taken_back_is_left_out() {
        let memory = AnswerMemory::default();
        let mut collection = Collection::new(&memory, [10; 5].into_iter());
        for number in [0, 1, 2, 4] {
            collection.put(number, &source(number as u8), 0, 10);
        }
        collection.take_back(1);
        collection.put(3, &Bytes::from_static(b"too short"), 0, 10);
        assert_eq!(
            (collection.missing(), collection.get(1), collection.get(2)),
            (vec![1, 3], None, Some(&[2; 10][..]))
        );
        let records = collection.finish();
        let found: Vec<_> = records.iter().map(|record| record.map(|record| record[0])).collect();
        assert_eq!((records.count(), found), (3, vec![Some(0), None, Some(2), None, Some(4)]));
        let mut pieces = Vec::new();
        records.into_pieces(&mut pieces);
        assert_eq!(pieces.concat(), [[0; 10], [2; 10], [4; 10]].concat());
    }
}
