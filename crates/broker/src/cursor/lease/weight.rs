//! How many bytes the ready messages of a lane have, for limits of bytes.
//!
//! The cursor notes what became ready and what is ready no more; sizes are looked up when the weight is asked for. **Always holds**: `size` is
//! that of all that is ready, with `gone`, and without `come` and what lies at or above `until` and was never handed out.

use roaring::RoaringTreemap;

/// The weight of a lane.
#[derive(Debug)]
pub(super) struct Weight {
    pub(super) size: u64,
    /// What lies below and was never handed out is weighed.
    pub(super) until: u64,
    /// Ready, and not weighed yet.
    come: RoaringTreemap,
    /// Weighed, and not ready any more.
    gone: RoaringTreemap,
}

impl Weight {
    /// Nothing is weighed: from `next` on nothing was handed out, and `returned` is ready.
    pub(super) fn begin(next: u64, returned: &RoaringTreemap) -> Self {
        Self { size: 0, until: next, come: returned.clone(), gone: RoaringTreemap::new() }
    }

    /// A message that was handed out is ready again.
    pub(super) fn note_ready(&mut self, offset: u64) {
        if !self.gone.remove(offset) {
            self.come.insert(offset);
        }
    }

    /// A ready message is not ready any more.
    pub(super) fn note_taken(&mut self, offset: u64) {
        if !self.come.remove(offset) && offset < self.until {
            self.gone.insert(offset);
        }
    }

    /// Weighs what was noted; from `next` on nothing was handed out.
    pub(super) fn weigh_noted<E>(
        &mut self,
        next: u64,
        mut size_of: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<(), E> {
        self.until = self.until.max(next);
        while let Some(offset) = self.gone.min() {
            self.size = self.size.saturating_sub(size_of(offset)?);
            self.gone.remove(offset);
        }
        while let Some(offset) = self.come.min() {
            self.size += size_of(offset)?;
            self.come.remove(offset);
        }
        Ok(())
    }
}
