//! Load generator and report: the engine behind `sluice bench`.
//!
//! It speaks `wire` as a client and knows no broker's inside, so it measures any broker of RocketMQ's protocol.
//! It usually shares the machine with the broker it measures and is built to be the cheaper of the two:
//!
//! - one thread serves every connection of its share with non-blocking sockets and one `poll` a round;
//! - a send is a pre-encoded frame with a few numbers patched in place (`template`), many to one socket write;
//! - a reply is read for its code and opaque alone (`reply`), many to one socket read;
//! - what is in flight is a fixed table indexed by the opaque (`window`). Nothing is allocated for a message.
//!
//! `run_limit` asks no broker: it measures what the machine itself can do, so that a broker's figures can be read as shares
//! of that.
//!
//! Above single runs: `scenario` holds what the field notes measured as steps, `peer` starts the brokers to be compared, `compare`
//! takes them through the steps in turn, `comparison` is what came of it, `page` shows it. They ask a `driver` for load and know no
//! protocol.
//!
//! A run in order: `route` finds brokers and queues, `sender` or `puller` threads make the load, `supervisor` watches
//! them second by second, `report` is what comes out.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads: see progress.rs")]

mod answer_times;
mod awaited;
mod clock;
mod compare;
mod comparison;
mod control;
mod cpus;
mod driver;
mod error;
#[cfg(test)]
mod example;
mod latency;
mod link;
mod live;
mod machine;
mod markdown;
mod measured;
mod options;
mod page;
mod page_cache;
mod pauses;
mod peer;
mod process;
mod progress;
mod pull_lane;
mod puller;
mod ratio;
mod remarks;
mod reply;
mod report;
mod route;
mod run_connect;
mod run_consume;
mod run_generator;
mod run_limit;
mod run_send;
mod run_visible;
mod scenario;
mod schedule;
mod scratch;
mod sender;
mod sink;
mod stage;
mod start_up;
mod supervisor;
mod table;
mod tally;
mod target;
mod template;
mod unique_key;
mod window;

pub use compare::{CompareOptions, CompareSink, compare};
pub use comparison::{Comparison, PeerResult, ScenarioResult, StepResult};
pub use cpus::leave as leave_processors;
pub use driver::{Driver, Held, driver_of};
pub use error::BenchError;
pub use latency::LatencySummary;
pub use machine::Machine;
pub use markdown::markdown;
pub use measured::Measured;
pub use options::{ConsumeOptions, HeaderForm, LimitOptions, SendOptions, StartFrom, VisibleOptions};
pub use page::page;
pub use peer::{Cluster, Peer, PeerKind, PeerSetup};
pub use process::BrokerUsage;
pub use progress::{ProgressSink, Quiet, Second, Terminal, progress_sink};
pub use ratio::Ratio;
pub use report::{
    ConsumeReport, ConsumeTotals, GeneratorUsage, LimitReport, Measure, RefusedCode, Report, SendReport, SendTotals,
};
pub use run_consume::consume;
pub use run_generator::generator;
pub use run_limit::limit;
pub use run_send::send;
pub use run_visible::{VisibleReport, visible};
pub use scenario::{
    ALL as SCENARIOS, BrokerNeeds, FieldFigures, Flush, Load, Scale, Scenario, Step, find as find_scenario,
};
pub use stage::Stage;
pub use start_up::{StartUp, WarmUp};
pub use target::Target;
