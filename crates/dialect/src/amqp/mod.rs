//! RabbitMQ's side of AMQP 0-9-1: one session per connection.
//!
//! Methods of a channel are answered in their order. What may wait for a disk is a job; a channel that has asked for something waits for it.

mod administering;
mod arguments;
mod blocked;
mod channel;
mod confirms;
mod consume;
mod consumers;
mod content;
mod credit;
mod deaths;
mod error;
mod giving_up;
mod handshake;
mod headers;
mod json;
mod kept;
mod life;
mod link;
mod methods;
mod opening;
mod options;
mod overdue;
mod prepared;
mod publish;
mod replies;
mod routes;
mod session;
mod settle;
mod signals;
mod stream;
mod topology;
mod transaction;
mod unacked;
mod unfinished;

pub use administering::{AdminError, Administrator, AskedBinding, AskedExchange, AskedQueue, shown_arguments};
pub use options::{AmqpOptions, CertificateUser, model_options};
pub use replies::Replies;
pub use session::AmqpSession;
pub use topology::kind_name;
