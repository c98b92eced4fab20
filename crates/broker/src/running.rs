//! What of a broker's options may change while it runs: read on the way of every message, changed by an administrator.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use base::{Permission, Refusal, Timestamp};

use crate::options::Options;

/// Options that may change while a broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningOptions {
    /// What is allowed with any topic of it. Whether topics may be inherited from is no matter of a broker.
    pub permission: Permission,
    /// Largest body, bytes.
    pub message_size_max: usize,
    /// Whether topics are made on the first send.
    pub auto_create_topics: bool,
    /// Whether groups are made on first use.
    pub auto_create_groups: bool,
}

impl From<&Options> for RunningOptions {
    fn from(options: &Options) -> Self {
        let Options { permission, message_size_max, auto_create_topics, auto_create_groups, .. } = *options;
        Self { permission, message_size_max, auto_create_topics, auto_create_groups }
    }
}

/// The same as they are now. Each is read by itself: of a change whoever reads two may see one.
#[derive(Debug)]
pub struct Running {
    may_read: AtomicBool,
    may_write: AtomicBool,
    message_size_max: AtomicUsize,
    auto_create_topics: AtomicBool,
    auto_create_groups: AtomicBool,
    /// ms since 1970; 0: never.
    changed: AtomicU64,
}

impl Running {
    pub(crate) fn new(options: &RunningOptions) -> Self {
        let RunningOptions { permission, message_size_max, auto_create_topics, auto_create_groups } = *options;
        Self {
            may_read: permission.read.into(),
            may_write: permission.write.into(),
            message_size_max: message_size_max.into(),
            auto_create_topics: auto_create_topics.into(),
            auto_create_groups: auto_create_groups.into(),
            changed: AtomicU64::new(0),
        }
    }

    pub(crate) fn change(&self, options: &RunningOptions, now: Timestamp) {
        let RunningOptions { permission, message_size_max, auto_create_topics, auto_create_groups } = *options;
        self.may_read.store(permission.read, Relaxed);
        self.may_write.store(permission.write, Relaxed);
        self.message_size_max.store(message_size_max, Relaxed);
        self.auto_create_topics.store(auto_create_topics, Relaxed);
        self.auto_create_groups.store(auto_create_groups, Relaxed);
        self.changed.store(now.0, Relaxed);
    }

    /// When they were changed last; 0: never.
    pub fn changed(&self) -> Timestamp {
        Timestamp(self.changed.load(Relaxed))
    }

    /// What is allowed with any topic of the broker.
    pub fn permission(&self) -> Permission {
        Permission { read: self.may_read.load(Relaxed), write: self.may_write.load(Relaxed), inherit: false }
    }

    /// Refused while nobody may write.
    pub fn check_write(&self, broker_name: &str) -> Result<(), Refusal> {
        if self.may_write.load(Relaxed) {
            return Ok(());
        }
        Err(Refusal::NotPermitted(format!(
            "the broker [{broker_name}] sending message is forbidden (broker.permission)"
        )))
    }

    /// Largest body, bytes.
    pub fn message_size_max(&self) -> usize {
        self.message_size_max.load(Relaxed)
    }

    /// Whether topics are made on the first send.
    pub fn auto_create_topics(&self) -> bool {
        self.auto_create_topics.load(Relaxed)
    }

    /// Whether groups are made on first use.
    pub fn auto_create_groups(&self) -> bool {
        self.auto_create_groups.load(Relaxed)
    }
}
