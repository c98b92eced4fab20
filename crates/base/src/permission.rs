//! What may be done with a topic, or with all topics of a broker.

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Consumers may read.
    pub read: bool,
    /// Producers may write.
    pub write: bool,
    /// New topics may take their settings from this one.
    pub inherit: bool,
}

impl Permission {
    /// Reading and writing.
    pub const OPEN: Self = Self { read: true, write: true, inherit: false };

    /// The same, and new topics may take it over.
    pub const TEMPLATE: Self = Self { inherit: true, ..Self::OPEN };

    /// Reading alone.
    pub const READ: Self = Self { write: false, ..Self::OPEN };
}
