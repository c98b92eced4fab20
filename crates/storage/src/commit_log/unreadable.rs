//! Records that the disk cannot read: passed over and told of as damaged, unless the disk is gone for a while (see `presence.rs`).

use base::LogOffset;
use bytes::Bytes;

use super::CommitLog;
use crate::error::StorageError;
use crate::presence::Presence;
use crate::store::ReadMode;

impl CommitLog {
    /// Bytes of the record at `offset`; `None` if the disk cannot read them but others, which is reported.
    pub(super) fn read_or_tell(&self, offset: LogOffset, size: usize) -> Result<Option<Bytes>, StorageError> {
        self.unless_unreadable((offset, size), || self.read_bytes(offset.0, size, ReadMode::MayWait))
    }

    /// What `read` reads of the record of `size` bytes at `offset`; `None` as in `read_or_tell`.
    pub(super) fn unless_unreadable<T>(
        &self,
        (offset, size): (LogOffset, usize),
        mut read: impl FnMut() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        // Nearly always the first time.
        let problem = match read() {
            Err(error) if error.is_unreadable() => error.to_string(),
            outcome => return outcome.map(Some),
        };
        let (durable, written) = (self.watermarks.durable(), self.watermarks.written());
        let presence = Presence { segments: &self.segments(), durable, written };
        let outcome = presence.read_again((offset, size), read);
        match &outcome {
            Ok(None) => self.tell_damage(offset, &problem),
            // What was noted of extents meanwhile is not theirs.
            Err(error) if error.is_unreadable() => self.extents.forget_unreadable(),
            _ => {}
        }
        outcome
    }
}
