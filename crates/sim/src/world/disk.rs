//! What fails about the disk, and what is mended.

use super::World;
use crate::fault::Sector;
use crate::node::DIRECTORY;
use crate::oracle::{Checked, Rule, Violation};

impl World {
    /// Leaves so many bytes on the disk; `None`: as many as it had.
    pub(super) fn set_room(&self, left: Option<u64>) -> Checked {
        let memory = self.disk.memory();
        let used = storage::disk::Disk::new(memory.clone()).usage(std::path::Path::new(DIRECTORY));
        let used = used.map_err(|error| Violation::of(Rule::WorkSucceeds, error.to_string()))?.0;
        memory.set_capacity(left.map_or(self.setup.capacity, |left| used + left));
        Ok(())
    }

    /// Nothing fails any more but reading those sectors.
    pub(super) fn mend(&mut self, keeps: impl Fn(&Sector) -> bool) {
        self.disk.heal();
        self.sectors.retain(keeps);
        self.sectors.iter().for_each(|sector| sector.lose(&self.disk));
    }

    pub(super) fn has_room(&self) -> bool {
        let usage = storage::disk::Disk::new(self.disk.memory().clone()).usage(std::path::Path::new(DIRECTORY));
        usage.is_ok_and(|(_, total)| total >= self.setup.capacity)
    }
}
