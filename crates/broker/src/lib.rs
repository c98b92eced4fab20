//! What messages mean, in no protocol's words: catalog, publishing, fetching, offsets, groups, retry, delay, look-up.
//!
//! **Owns** the catalog of topics and groups, committed offsets, membership and queue locks. **Always holds**: equal inputs give
//! equal outputs (time and randomness come in from outside); the catalog is read through an immutable snapshot; what is
//! acknowledged is in the store, changes of state too. **On a crash** of the process alone nothing is lost that was answered; commits
//! that are not answered may be a tenth of a second old: consumers see some messages again, never fewer.

pub mod admin;
mod broker;
mod catalog;
mod committed;
mod delay;
mod deliver;
mod export;
mod fetch;
mod fetched;
mod filter;
mod flow;
mod gathering;
mod group;
mod lock;
mod lookup;
mod mailbox;
mod member;
mod noted;
mod offset;
mod publish;
mod published;
mod queue;
mod rate;
mod retry;
mod state;

pub use broker::{Broker, Host, Options, Surroundings};
pub use catalog::{Catalog, Permission, Topic};
pub use fetch::{Fetch, FetchStatus, Fetched};
pub use fetched::FetchedOffsets;
pub use filter::Filter;
pub use flow::PeriodFlow;
pub use gathering::CommitStage;
pub use group::{ConsumerRegistration, GroupSnapshot, Subscription};
pub use lock::QueueKey;
pub use lookup::KeyKind;
pub use mailbox::{Mailbox, Signal};
pub use member::Member;
pub use offset::Boundary;
pub use publish::{Added, Message, PublishBatch};
pub use published::{Position, Published};
pub use queue::Queue;
pub use retry::SendBack;
pub use state::{Exported, Written, export_documents};

/// One place's position, as committed or reported: may lie outside the queue.
pub type RawOffset = i64;
