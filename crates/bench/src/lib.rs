//! Load generator and report: the engine behind `sluice bench`.
//!
//! It knows no broker's inside, so it measures any broker of a protocol it speaks. It usually shares the machine with the broker it
//! measures and is built to be the cheaper of the two:
//!
//! - one thread serves every connection of its share with non-blocking sockets and one `poll` a round (`client::link`);
//! - a send is a pre-encoded frame with a few numbers patched in place (`rocketmq::template`), many to one socket write;
//! - a reply is read for its code and opaque alone (`rocketmq::reply`), many to one socket read;
//! - what is in flight is a fixed table indexed by the opaque (`rocketmq::window`). Nothing is allocated for a message.
//!
//! `load` has what every protocol's load needs, `rocketmq` and `amqp` the load of one: `route` or `topology` finds brokers and queues,
//! `load::sender`, `puller`, `popper` or `consumer` threads make the load, `load::supervisor` watches them second by second, `load::report` is what comes out. `machine` asks no broker; nor does `limit`, which measures what the machine itself can do, so that a broker's figures can be read as shares of that.
//!
//! `compare` stands above single runs: `scenario` holds what the field notes measured as steps, `peer` starts the brokers to be
//! compared, `rounds` takes them through the steps in turn, `comparison` is what came of it, `page` shows it. It asks a `driver` for
//! load and knows no protocol.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures from outside: clocks, threads, files, sockets"
)]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads: see load/progress.rs")]

mod amqp;
mod compare;
mod driver;
mod error;
mod limit;
mod load;
mod machine;
mod rocketmq;

pub use amqp::options::{Amqp, DeliverOptions, ExchangeKind, PublishOptions, QueueOptions};
pub use client::target::Target;
pub use compare::comparison::{CompareOptions, Comparison, PeerResult, ScenarioResult, StepResult};
pub use compare::markdown::markdown;
pub use compare::measured::Measured;
pub use compare::page::page;
pub use compare::peer::process::PeerSetup;
pub use compare::peer::{Cluster, Peer, PeerKind};
pub use compare::ratio::Ratio;
pub use compare::remarks::remarks_of;
pub use compare::rounds::compare;
pub use compare::scenario::load::Load;
pub use compare::scenario::scale::Scale;
pub use compare::scenario::step::{
    BrokerNeeds, FieldFigures, Flush, Pacing, Protocol, Replication, Scenario, Side, Step, Whose,
};
pub use compare::scenario::{ALL as SCENARIOS, find as find_scenario};
pub use compare::stage::Stage;
pub use compare::start_up::{StartUp, WarmUp};
pub use driver::{Driver, Spoken, driver_of};
pub use error::BenchError;
pub use limit::limit;
pub use limit::report::{LimitOptions, LimitReport, Measure};
pub use load::latency::LatencySummary;
pub use load::opener::Held;
pub use load::options::{ConsumeOptions, RunOptions, SendOptions, StartFrom, VisibleOptions};
pub use load::pop_options::PopOptions;
pub use load::pop_report::{PopReport, PopTotals};
pub use load::progress::{ProgressSink, Quiet, Second, Terminal, progress_sink};
pub use load::report::{ConsumeReport, ConsumeTotals, GeneratorUsage, Report, SendReport, SendTotals, VisibleReport};
pub use load::tally::RefusedCode;
pub use machine::Machine;
pub use machine::cpus::leave as leave_processors;
pub use machine::process::BrokerUsage;
pub use rocketmq::generator::generator;
pub use rocketmq::options::{HeaderForm, RocketMq};
