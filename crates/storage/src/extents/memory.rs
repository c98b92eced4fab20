//! The memory of extents, which is used again: the kernel clears new memory, and it may be dear.
//!
//! It is asked of the kernel and not of the allocator: it lies at a page's begin, as direct reads want it, and all of it goes back.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::MmapMut;
use parking_lot::Mutex;

use super::EXTENT_SIZE;

/// Pieces that are kept for the next extents: 4 MiB.
const SPARE_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Vec<MmapMut>>);

/// Memory for one extent. Goes back when the last who shares its bytes lets them go.
#[derive(Debug)]
pub(super) struct Buffer {
    /// There until it is dropped.
    piece: Option<MmapMut>,
    memory: Arc<Memory>,
}

impl Memory {
    /// A buffer with anything in it.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Buffer> {
        let spare = self.0.lock().pop();
        let piece = spare.map_or_else(|| MmapMut::map_anon(EXTENT_SIZE as usize), Ok)?;
        Ok(Buffer { piece: Some(piece), memory: self.clone() })
    }
}

impl Buffer {
    /// All of it, to be filled.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.piece.as_deref_mut().unwrap_or_default()
    }

    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.piece.as_deref().unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut spare = self.memory.0.lock();
        if spare.len() < SPARE_MAX {
            spare.extend(self.piece.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_once_nobody_shares_it() {
        let memory = Arc::new(Memory::default());
        let take = || memory.take().expect("there is some");
        let mut buffer = take();
        buffer.bytes().fill(7);
        let at = buffer.as_ref().as_ptr();
        let extent = buffer.freeze();
        let part = extent.slice(2..5);
        drop(extent);
        assert_ne!(take().as_ref().as_ptr(), at, "somebody has a part of it");
        assert_eq!(part, &[7; 3][..]);
        drop(part);
        let (one, other) = (take(), take());
        assert!([one.as_ref().as_ptr(), other.as_ref().as_ptr()].contains(&at));
    }

    #[test]
    fn what_was_used_at_one_time_is_not_kept_for_good() {
        let memory = Arc::new(Memory::default());
        drop((0..100).map(|_| memory.take().expect("there is some")).collect::<Vec<_>>());
        assert_eq!(memory.0.lock().len(), SPARE_MAX);
    }
}
