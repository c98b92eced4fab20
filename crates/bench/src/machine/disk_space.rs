//! How full a file system is.

use std::path::Path;

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that are used.
    pub used: u64,
    /// Bytes that can still be used without special rights.
    pub free: u64,
}

impl DiskSpace {
    /// That of the file system of `path`, if the system tells.
    pub fn of(path: &Path) -> Option<Self> {
        let figures = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(figures.f_frsize);
        Some(Self { used: bytes(figures.f_blocks.saturating_sub(figures.f_bfree)), free: bytes(figures.f_bavail) })
    }

    /// Used bytes of all that may be, in percent, as `df` has them.
    pub fn used_percent(self) -> f64 {
        self.used as f64 * 100.0 / (self.used.saturating_add(self.free)).max(1) as f64
    }
}
