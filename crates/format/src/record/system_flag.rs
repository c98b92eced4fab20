//! Bits of the system flag (source: RocketMQ `MessageSysFlag`).

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// Mask of the transaction state; 0 is an ordinary message, 4 prepared, 8 commit, 12 rollback.
pub const TRANSACTION_MASK: i32 = 0xC;
/// A half message.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// A rolled-back half message.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host is an IPv6 address.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address.
pub const STORE_HOST_V6: i32 = 0x20;
/// The message may have several tags.
pub const SEVERAL_TAGS: i32 = 0x2;
/// Mask of the way a body is compressed.
pub const COMPRESSION_MASK: i32 = 0x700;
/// A record of the broker's own state, not a message. From bit 11 to 31 no version of RocketMQ gives any bit a meaning.
pub const STATE: i32 = 1 << 16;
/// A routed message: the queues that list it are named in its body (see `crate::routed`).
pub const ROUTED: i32 = 1 << 17;
/// What a sender has a say in. The rest tells how a record is laid out (hosts, a batch stored as one) or is not given out yet: from
/// bit 11 on the marks are the broker's own.
pub const OF_SENDER: i32 = COMPRESSED | SEVERAL_TAGS | TRANSACTION_MASK | COMPRESSION_MASK;
