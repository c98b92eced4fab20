//! Load generator and report: the engine behind `sluice bench send`, `consume`, `visible` and `limit`.
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
//! A run in order: `route` finds brokers and queues, `sender` or `puller` threads make the load, `supervisor` watches
//! them second by second, `report` is what comes out.

mod answer_times;
mod clock;
mod control;
mod error;
mod latency;
mod link;
mod live;
mod machine;
mod options;
mod process;
mod progress;
mod pull_lane;
mod puller;
mod reply;
mod report;
mod route;
mod run_consume;
mod run_limit;
mod run_send;
mod run_visible;
mod schedule;
mod scratch;
mod sender;
mod supervisor;
mod table;
mod tally;
mod target;
mod template;
mod unique_key;
mod window;

pub use error::BenchError;
pub use latency::LatencySummary;
pub use machine::Machine;
pub use options::{ConsumeOptions, HeaderForm, LimitOptions, SendOptions, StartFrom, VisibleOptions};
pub use process::BrokerUsage;
pub use progress::{ProgressSink, Quiet, Second, Terminal, progress_sink};
pub use report::{
    ConsumeReport, ConsumeTotals, GeneratorUsage, LimitReport, Measure, RefusedCode, SendReport, SendTotals,
};
pub use run_consume::consume;
pub use run_limit::limit;
pub use run_send::send;
pub use run_visible::{VisibleReport, visible};
pub use target::Target;
