//! What messages mean, in no protocol's words: catalog, publishing, fetching, offsets, groups, retry, delay, look-up.
//!
//! **Owns** the catalog of topics and groups, committed offsets, membership and queue locks. **Always holds**: equal inputs give
//! equal outputs (time and randomness come in from outside); the catalog is read through an immutable snapshot; what is
//! acknowledged is in the store, changes of state too. **On a crash** of the process alone nothing is lost that was answered; commits
//! that are not answered may be a tenth of a second old: consumers see some messages again, never fewer.

mod broker;
mod catalog;
mod committed;
mod delay;
mod deliver;
mod durability;
mod error;
mod export;
mod fetch;
mod fetched;
mod filter;
mod flow;
mod gathering;
mod group;
mod host;
mod lock;
mod lookup;
mod mailbox;
mod member;
mod noted;
mod offset;
mod options;
mod publish;
mod published;
mod queue;
mod rate;
mod removal;
mod retry;
mod snapshots;
mod state;

pub use broker::{Broker, Surroundings};
pub use catalog::{Catalog, Permission, Topic};
pub use delay::Delay;
pub use deliver::Delivery;
pub use durability::Durability;
pub use fetch::{Fetch, FetchStatus, Fetched, Fetcher};
pub use fetched::{FetchedOffsets, FetchedTable};
pub use filter::Filter;
pub use flow::PeriodFlow;
pub use gathering::CommitStage;
pub use group::{ConsumerRegistration, GroupSnapshot, Groups, Subscription};
pub use host::Host;
pub use lock::{Locks, QueueKey};
pub use lookup::{KeyKind, Lookup};
pub use mailbox::{Mailbox, Signal};
pub use member::Member;
pub use offset::{Boundary, Offsets};
pub use options::Options;
pub use publish::{Added, Message, PublishBatch, Publisher};
pub use published::{Position, Published};
pub use queue::Queue;
pub use removal::Removals;
pub use retry::{Retries, SendBack};
pub use snapshots::{ProgressSnapshot, QueueSnapshot, RuntimeSnapshot, Snapshots};
pub use state::{Exported, Written, export_documents};

/// One place's position, as committed or reported: may lie outside the queue.
pub type RawOffset = i64;
