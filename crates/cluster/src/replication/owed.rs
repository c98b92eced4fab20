//! What a slave's consumers did while its master was away.

use format::document::GroupDocument;

/// How far a group has come in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
    /// Queue.
    pub queue: u32,
    /// Its committed offset.
    pub offset: i64,
}

/// What consumers did at the slave, and the master does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owed {
    /// Groups that the master does not have.
    pub groups: Vec<GroupDocument>,
    /// Offsets that are beyond the master's.
    pub offsets: Vec<Settled>,
}
