//! The memory of extents, which is used again: new memory of this size would have to be asked of the kernel, and cleared by it, for each.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::EXTENT_SIZE;

/// Buffers that are kept for the next extents: 4 MiB.
const SPARE_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Vec<Vec<u8>>>);

/// Memory for one extent. Goes back when the last who shares its bytes lets them go.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    memory: Arc<Memory>,
}

impl Memory {
    /// An empty buffer.
    pub(super) fn take(self: &Arc<Self>) -> Buffer {
        let spare = self.0.lock().pop();
        Buffer { bytes: spare.unwrap_or_else(|| Vec::with_capacity(EXTENT_SIZE as usize)), memory: self.clone() }
    }
}

impl Buffer {
    /// What is in it, to be added to.
    pub(super) const fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut spare = self.memory.0.lock();
        if spare.len() < SPARE_MAX {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_once_nobody_shares_it() {
        let memory = Arc::new(Memory::default());
        let mut buffer = memory.take();
        buffer.bytes().extend_from_slice(b"extent");
        let at = buffer.bytes().as_ptr();
        let (extent, part) = {
            let extent = buffer.freeze();
            (extent.clone(), extent.slice(2..))
        };
        drop(extent);
        assert_ne!(memory.take().bytes().as_ptr(), at, "somebody has a part of it");
        assert_eq!(part, &b"tent"[..]);
        drop(part);
        let again = memory.take();
        assert!(again.bytes.is_empty() && [again.bytes.as_ptr(), memory.take().bytes.as_ptr()].contains(&at));
    }

    #[test]
    fn what_was_used_at_one_time_is_not_kept_for_good() {
        let memory = Arc::new(Memory::default());
        drop((0..100).map(|_| memory.take()).collect::<Vec<_>>());
        assert_eq!(memory.0.lock().len(), SPARE_MAX);
    }
}
