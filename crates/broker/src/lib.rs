//! What messages mean, in no protocol's words: catalog, publishing, fetching, offsets, groups, retry, delay, look-up.
//!
//! **Owns** the catalog of topics and groups, committed offsets, membership and queue locks. **Always holds**: equal inputs give
//! equal outputs (time and randomness come in from outside); the catalog is read through an immutable snapshot; what is
//! acknowledged is in the store, changes of state too. **On a crash** of the process alone nothing is lost that was answered; commits
//! that are not answered may be a tenth of a second old: consumers see some messages again, never fewer.

mod broker;
mod catalog;
mod copies;
mod cursor;
mod durability;
mod error;
mod export;
mod fetch;
mod filter;
mod following;
mod group;
mod host;
mod leasing;
mod lookup;
mod model;
mod options;
mod parked;
mod publish;
mod queue;
mod removal;
mod replicas;
mod request_modes;
mod retention;
mod retry;
mod routes;
mod routing;
mod running;
mod schedule;
mod snapshots;
mod state;
mod wait;

pub use broker::{Broker, Surroundings};
pub use catalog::{Catalog, Topic};
pub use copies::{Copies, RESENDER, Resend, ResendTo, Resent};
pub use cursor::committed::OffsetCursor;
pub use cursor::fetched::{FetchedOffsets, FetchedTable};
pub use cursor::gathering::CommitStage;
pub use cursor::lane::Lane;
pub use cursor::lanes::Lanes;
pub use cursor::lease;
pub use cursor::offset::{Beginning, Boundary, Offsets};
pub use cursor::takers::{Taker, Wish};
pub use cursor::waiters::Waiter;
pub use durability::Durability;
pub use fetch::{Fetch, FetchStatus, Fetched, Fetcher};
pub use filter::Filter;
pub use following::{Following, MasterSeen, Unknown};
pub use group::description::Description;
pub use group::lock::{Locks, QueueKey};
pub use group::mailbox::{Mailbox, Signal, Word};
pub use group::member::Member;
pub use group::{ConsumerRegistration, GroupSnapshot, Groups, Subscription};
pub use host::Host;
pub use leasing::{DoomReason, Doomed, Expiry, Given, GrantName, HandOut, Holder, Leasing, Wanted};
pub use lookup::{KeyKind, Lookup};
pub use model::access::{
    Access, Permission as UserPermission, Right, TopicPermission, TopicPermissions, hash_password,
};
pub use model::connections::{ClientSaid, Connected, Connections, OpenChannel};
pub use model::consumers::{Consumer, Seat};
pub use model::error::{ModelError, OtherExchange, Shown};
pub use model::message_queue::{ConnectionNumber, MessageQueue, QueueWish};
pub use model::publish::RoutedMessage;
pub use model::virtual_host::{BindingShown, BindingTarget, BindingWish, DEFAULT_EXCHANGE, VirtualHost};
pub use model::{
    DeadLetterForm, Death, Deleted, Model, ModelOptions, Noted, OnlyIf, Plain, Settling, StreamPlace, StreamRead,
};
pub use options::{Options, SystemTopic, SystemTopics};
pub use parked::delay::Delay;
pub use parked::delivery::Delivery;
pub use publish::published::{Position, Published};
pub use publish::{Added, Message, PublishBatch, Publisher};
pub use queue::Queue;
pub use removal::Removals;
pub use replicas::{Replica, ReplicaList, Replicas};
pub use request_modes::RequestModes;
pub use retention::{Keeper, Retention, Unsettled};
pub use retry::{Retries, SendBack};
pub use routes::{QueuesAt, Routes, Whereabouts};
pub use routing::{
    BindingSpec, Destination, ExchangeKind, ExchangeSettings, HeaderMode, HeaderRule, Headers, Removed, Router, Routing,
};
pub use running::{Running, RunningOptions};
pub use schedule::{Intervals, Schedule, Work, WorkError, Worked};
pub use snapshots::flow::PeriodFlow;
pub use snapshots::{GroupProgress, ProgressSnapshot, QueueSnapshot, RuntimeSnapshot, Snapshots};
pub use state::{Exported, Written, export_documents};
pub use wait::{Standing, Wait};

/// One place's position, as committed or reported: may lie outside the queue.
pub type RawOffset = i64;
