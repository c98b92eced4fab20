//! A disk that does not answer for as long as a test says.

use storage::disk::{Disk, FaultyDisk, MemoryDisk};

/// A disk in memory that answers again once this is dropped, however the test ends.
#[derive(Debug)]
pub struct HangingDisk(FaultyDisk);

impl Default for HangingDisk {
    fn default() -> Self {
        Self(FaultyDisk::over(&MemoryDisk::new()))
    }
}

impl HangingDisk {
    /// The same options, on this disk.
    pub fn of(&self, options: storage::Options) -> storage::Options {
        storage::Options { disk: Disk::new(self.0.clone()), ..options }
    }

    /// No sync of a file comes back from now on.
    pub fn hang_syncs(&self) {
        self.0.hold_syncs();
    }

    /// Whatever hangs comes back, and all that follows.
    pub fn release(&self) {
        self.0.release_all();
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        self.release();
    }
}
