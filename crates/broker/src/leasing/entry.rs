//! Entries of lanes, and those that cannot be theirs.

use base::QueueOffset;
use format::queue_entry::Entry;
use storage::StorageError;

use crate::cursor::window::Window;
use crate::queue::Queue;

/// The entry of an offset. One of a message queue that says nothing was damaged: nobody writes such a one, and its message may be whole.
/// Official brokers fill the queues of topics with them.
pub(super) fn entry_in(
    window: &mut Window,
    queue: &Queue,
    offset: QueueOffset,
    window_size: usize,
) -> Result<Option<Entry>, StorageError> {
    let entry = window.entry(queue, offset, window_size)?;
    if entry.is_none_or(|entry| entry.size > 0) || queue.topic().message_queue().is_none() {
        return Ok(entry);
    }
    Err(wrong_entry(queue, offset))
}

/// An entry of a message queue that was overwritten.
pub(super) fn wrong_entry(queue: &Queue, offset: QueueOffset) -> StorageError {
    StorageError::Damaged {
        path: queue.index.directory(),
        problem: format!(
            "its entry {offset} is overwritten, and the message may be whole: stop the broker and remove the folder sluice/queues of \
             its data directory, whose entries the next start makes again from the log"
        ),
    }
}
