//! Every bound of Sluice that is not a setting, with its reason and its relation to the others.

/// Largest frame a RocketMQ peer may send, header and body, in bytes. The official clients and servers use the same cap.
pub const FRAME_SIZE_MAX: usize = 16 * 1024 * 1024;

/// Largest header of a RocketMQ frame, in bytes: properties (32 767) and names fit many times over.
pub const FRAME_HEADER_SIZE_MAX: usize = 1024 * 1024;

/// Extension fields in one header: the largest official request carries about 20.
pub const HEADER_FIELD_COUNT_MAX: usize = 256;

/// Longest name of a topic that is made or written to, in bytes: one byte of length in the record's first form, the only one that
/// RocketMQ 4.9 reads (`CHARACTER_MAX_LENGTH`).
pub const TOPIC_NAME_SIZE_MAX: usize = 127;

/// Longest name of a group that has retries and dead letters, in bytes: `%RETRY%` and the name are a topic.
pub const RETRIED_GROUP_NAME_SIZE_MAX: usize = TOPIC_NAME_SIZE_MAX - "%RETRY%".len();

/// Longest topic name that is read, in bytes: RocketMQ 5.x makes retry topics of this size, and a folder's name has no more.
pub const INTERNAL_TOPIC_NAME_SIZE_MAX: usize = 255;

/// Longest group name, in bytes: RocketMQ 5.x has a retry topic for each of these.
pub const GROUP_NAME_SIZE_MAX: usize = INTERNAL_TOPIC_NAME_SIZE_MAX - "%RETRY%".len();

/// Longest property block of a message, in bytes: its length is a signed 16-bit number in the record.
pub const PROPERTIES_SIZE_MAX: usize = i16::MAX as usize;

/// Largest record in the log, in bytes: the default body limit (4 MiB), which settings may raise to this less overhead.
pub const RECORD_SIZE_MAX: usize = 64 * 1024 * 1024;

/// Queues of one topic: RocketMQ's own practical bound, and it keeps a route answer within a frame.
pub const QUEUES_PER_TOPIC_MAX: u32 = 65_536;

/// Topics a broker keeps: bounded by memory (about 1 KiB each) rather than by design.
pub const TOPICS_MAX: usize = 1_000_000;

/// Bytes of encoded records one publish batch may gather before it is appended.
pub const PUBLISH_BATCH_SIZE_MAX: usize = 1024 * 1024;

/// Bytes that are read from a connection at once: a batch of a few hundred messages of 1 KiB.
pub const READ_SIZE: usize = 256 * 1024;

/// Bytes of replies a connection may have waiting before its requests are no longer read.
pub const OUTPUT_BACKLOG_SIZE_MAX: usize = 8 * 1024 * 1024;

/// Bytes that all connections hold together before large requests wait and large answers are refused: requests that are not whole,
/// answers being made and answers not taken. Some large look-ups at once, and hundreds of pulls.
pub const CONNECTIONS_HELD_SIZE_MAX: usize = 192 * 1024 * 1024;

/// Bytes staged for the log and not yet written before publishers' sockets are no longer read.
pub const STAGED_SIZE_MAX: usize = 32 * 1024 * 1024;

/// Bytes the records of one batch may take: as much as may wait to be written. Many short messages take several times the frame they came
/// in, and each takes the frame's own properties as well.
pub const BATCH_RECORDS_SIZE_MAX: usize = STAGED_SIZE_MAX;

/// Bytes that the messages of one transaction may take, and their records: they are one batch.
pub const TRANSACTION_SIZE_MAX: usize = BATCH_RECORDS_SIZE_MAX;

/// Requests of one connection that may wait for messages at once: every queue of a large subscription.
pub const WAITING_FETCHES_PER_CONNECTION_MAX: usize = 65_536;

/// Members of one group.
pub const GROUP_MEMBERS_MAX: usize = 100_000;

/// Most pairs of topic and group that offsets are committed for: whoever commits names the group.
pub const OFFSET_PAIRS_MAX: usize = 1_000_000;

/// Queues in which groups have messages handed out one by one, each group's counted: about 500 bytes each, with nothing leased.
pub const LANES_MAX: usize = 1_000_000;

/// Lanes of one message queue: a priority each, which is one byte.
pub const LANES_PER_QUEUE_MAX: usize = 256;

/// Messages of a message queue that are looked at, or made dead letters, in one go when they have expired: others wait for their lane.
pub const SWEPT_AT_ONCE_MAX: usize = 256;

/// Groups a broker keeps, and producer groups that have members: as many as topics, since each has one for its retries.
pub const GROUPS_MAX: usize = TOPICS_MAX;

/// Topics of which a broker asks name servers where their queues are.
pub const ROUTES_MAX: usize = 65_536;

/// Queues of one topic in the whole cluster that are divided among consumers.
pub const QUEUES_OF_ROUTE_MAX: u64 = 4 * QUEUES_PER_TOPIC_MAX as u64;

/// Pairs of topic and group of which it is kept how messages are asked for: their document is written whole with each change.
pub const REQUEST_MODES_MAX: usize = 100_000;

/// Topics one group subscribes to: far beyond any known use, and taken in within milliseconds while others wait.
pub const SUBSCRIPTIONS_PER_GROUP_MAX: usize = 10_000;

/// Queues that are locked at once, by all clients: those of four of the largest topics, and about 50 MB.
pub const QUEUE_LOCKS_MAX: usize = 4 * QUEUES_PER_TOPIC_MAX as usize;

/// Queues, by group, for which is noted how far they were fetched: 32 MB. A topic's part in a group counts as 32 more.
pub const FETCHED_QUEUES_MAX: usize = 4 * 1024 * 1024;

/// Topics, and topics by group, whose messages are counted by minute, hour and day: about 50 MB.
pub const FLOW_HISTORIES_MAX: usize = 65_536;

/// Bytes that what one connection is in may take, its groups with what it wants of topics: a client in some ten thousand groups.
pub const MEMBERSHIPS_SIZE_MAX: usize = 32 * 1024 * 1024;

/// Longest id a client may give itself, in bytes: kept once for each group it is in. Official ones have about 60.
pub const CLIENT_ID_SIZE_MAX: usize = 1024;

/// Longest names of how a group consumes that a heartbeat may give, together, in bytes: kept for each group. Official ones have about 80.
pub const GROUP_KINDS_SIZE_MAX: usize = 256;

/// Largest body that lists a client's groups or queues, in bytes: a client that locks every queue of the largest topic.
pub const LIST_BODY_SIZE_MAX: usize = 8 * 1024 * 1024;

/// Largest such body that a network thread reads itself: well below a millisecond's work.
pub const LIST_BODY_HERE_SIZE_MAX: usize = 64 * 1024;

/// Files of one store in use: queues, segments of the log, key indexes, documents. Connections leave them free.
pub const FILES_OF_STORE: u64 = 4096;

const _: () = assert!(FRAME_HEADER_SIZE_MAX < FRAME_SIZE_MAX);
const _: () = assert!(PROPERTIES_SIZE_MAX < FRAME_HEADER_SIZE_MAX);
const _: () = assert!(4 * OUTPUT_BACKLOG_SIZE_MAX < CONNECTIONS_HELD_SIZE_MAX);
const _: () = assert!(4 * FRAME_SIZE_MAX < CONNECTIONS_HELD_SIZE_MAX);
const _: () = assert!(PUBLISH_BATCH_SIZE_MAX < STAGED_SIZE_MAX);
const _: () = assert!(LIST_BODY_SIZE_MAX < FRAME_SIZE_MAX);
const _: () = assert!(TOPIC_NAME_SIZE_MAX < INTERNAL_TOPIC_NAME_SIZE_MAX);
