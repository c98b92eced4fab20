//! How far each group has come in each queue: offset cursors and lease cursors, and who waits for more.

pub(crate) mod committed;
pub(crate) mod fetched;
pub(crate) mod gathering;
pub(crate) mod lane;
pub(crate) mod lanes;
pub mod lease;
pub(crate) mod offset;
pub(crate) mod takers;
pub(crate) mod waiters;
pub(crate) mod weighing;
pub(crate) mod window;
