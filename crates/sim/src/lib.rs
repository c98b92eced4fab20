//! A whole node on virtual clocks and a virtual disk, with random clients and an oracle.
//!
//! A seed makes a story (`story.rs`): what clients ask, which thread does its work when, what fails. A world (`world.rs`) runs it in
//! one thread: real frames go through real sessions to a real broker over a disk in memory that forgets what was not synced. The
//! oracle hears every request and answer, and knows what `docs/semantics.md` promises. A story that breaks a promise is made short
//! (`shrink.rs`). Nothing here reads a clock or a source of chance: a seed has one trace.

mod chance;
mod client;
mod connection;
mod counting;
mod fault;
mod host;
mod node;
mod oracle;
mod popping;
mod pops;
mod queues;
mod registration;
mod replica;
mod request;
mod roster;
mod run;
mod secured;
mod shrink;
mod story;
mod trace;
mod world;

pub use fault::Contents;
pub use node::Work;
pub use oracle::{Rule, Violation, promise};
pub use pops::{PopAction, PopSetup};
pub use queues::{QueueAction, QueueStory};
pub use replica::{ReplicaAction, ReplicaSetup};
pub use run::{check_seed, outcome, tell};
pub use shrink::shrink;
pub use story::{Action, After, Setup, Step, Story};
pub use trace::Trace;
