//! How the entries of one queue stand in its files: of a topic as a Java broker has them, of a message queue's lane with a checksum.

use base::{LogOffset, QueueId, QueueNumber, QueueOffset, TopicName};

use crate::lane_entry::{LANE_ENTRY_SIZE, LanePlace};
use crate::queue_entry::{ENTRY_SIZE, Entry};

/// That of one queue.
#[derive(Clone, Copy, Debug)]
pub enum EntryForm {
    /// See `queue_entry`.
    OfTopic,
    /// See `lane_entry`.
    OfLane {
        /// Message queue.
        queue: QueueNumber,
        /// Lane of it.
        lane: u32,
    },
}

impl EntryForm {
    /// That of a topic's queue, or of a message queue's lane.
    pub fn of(topic: &TopicName, queue: QueueId) -> Self {
        match topic.message_queue() {
            None => Self::OfTopic,
            Some(number) => Self::OfLane { queue: number, lane: queue.0 },
        }
    }

    /// Bytes of one entry.
    pub const fn size(self) -> u64 {
        Self::size_of_all(matches!(self, Self::OfLane { .. }))
    }

    /// Bytes of one entry of all queues of topics, or of message queues.
    pub const fn size_of_all(of_message_queues: bool) -> u64 {
        if of_message_queues { LANE_ENTRY_SIZE as u64 } else { ENTRY_SIZE as u64 }
    }

    /// Whether what is no entry was written over: nobody writes such a one. Official brokers fill the queues of topics with them.
    pub const fn has_checksum(self) -> bool {
        matches!(self, Self::OfLane { .. })
    }

    /// The entries from an offset on as they stand there.
    pub fn encode(self, from: u64, entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(entries.len() * self.size() as usize);
        for (offset, entry) in (from..).zip(entries) {
            match self {
                Self::OfTopic => bytes.extend_from_slice(&entry.encode()),
                Self::OfLane { queue, lane } => {
                    let place = LanePlace { queue, lane, offset: QueueOffset(offset) };
                    bytes.extend_from_slice(&place.encode(entry));
                }
            }
        }
        bytes
    }

    /// The entry at an offset; `None` where there is none.
    pub fn decode(self, offset: u64, bytes: &[u8]) -> Option<Entry> {
        match self {
            Self::OfTopic => Entry::decode(bytes),
            Self::OfLane { queue, lane } => LanePlace { queue, lane, offset: QueueOffset(offset) }.decode(bytes),
        }
    }

    /// Appends the entries from an offset on to `entries`: of a topic each, none as one of no size, with a checksum those before one that is
    /// none.
    pub fn decode_all(self, from: u64, bytes: &[u8], entries: &mut Vec<Entry>) {
        match self {
            Self::OfTopic => {
                let none = Entry { log_offset: LogOffset(0), size: 0, tag_code: 0 };
                entries.extend(bytes.chunks_exact(ENTRY_SIZE).map(|bytes| Entry::decode(bytes).unwrap_or(none)));
            }
            Self::OfLane { .. } => {
                let pieces = (from..).zip(bytes.chunks_exact(LANE_ENTRY_SIZE));
                entries.extend(pieces.map_while(|(offset, bytes)| self.decode(offset, bytes)));
            }
        }
    }
}
