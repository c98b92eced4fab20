//! How AMQP 0-9-1 is spoken, beyond what every load has to say.

use clap::{Args, ValueEnum};
use client::amqp::address::AmqpAddress;
use serde::Serialize;

use crate::error::BenchError;
use crate::load::options::{by_default, check_range, wrong};

/// Channels of a connection, and of a run: each has a number of two bytes in the marks of its messages.
const CHANNELS_MAX: usize = u16::MAX as usize;
/// Milliseconds that a message takes its consumer: an hour.
const WORK_MS_MAX: u64 = 3_600_000;

/// What an exchange does with routing keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeKind {
    /// To queues bound with the same key.
    #[default]
    #[value(help = None::<&str>)]
    Direct,
    /// To every queue bound.
    #[value(help = None::<&str>)]
    Fanout,
    /// To queues bound with a pattern of the key.
    #[value(help = None::<&str>)]
    Topic,
    /// To queues bound with the message's headers.
    #[value(help = None::<&str>)]
    Headers,
}

impl ExchangeKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }
}

/// How queues are made, where `--queues` says how many.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "AMQP")]
pub struct QueueOptions {
    /// Makes queues and exchange so that they do not outlive a restart.
    #[arg(long)]
    pub transient_queues: bool,
    /// Argument of the queues, as in x-queue-type=quorum; may be given often.
    #[arg(long = "queue-argument", value_name = "NAME=VALUE", value_parser = argument)]
    pub queue_arguments: Vec<(String, String)>,
}

/// How messages are published.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "AMQP")]
pub struct PublishOptions {
    /// Channels on each connection; each has a window of its own.
    #[arg(long, default_value_t = 1)]
    pub channels: usize,
    /// Exchange messages go to, and queues are bound to; without one they go to the queues by their names, in turn.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub exchange: String,
    /// Kind of that exchange.
    #[arg(long, value_enum, default_value = "direct")]
    pub exchange_kind: ExchangeKind,
    /// Key that messages go with, and queues are bound with.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub routing_key: String,
    /// Sends messages that need not outlive a restart.
    #[arg(long)]
    pub transient: bool,
}

/// How messages are consumed.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[command(next_help_heading = "AMQP")]
pub struct DeliverOptions {
    /// Channels with a consumer on each connection.
    #[arg(long, default_value_t = 1)]
    pub consumer_channels: usize,
    /// Messages a consumer may have unacknowledged; 0 is no limit.
    #[arg(long, default_value_t = 256)]
    pub prefetch: u16,
    /// Has messages settled when they are sent.
    #[arg(long)]
    pub auto_ack: bool,
    /// Acknowledges so many messages at once.
    #[arg(long, default_value_t = 1)]
    pub ack_every: usize,
    /// Milliseconds that each message takes its channel, one after the other, before it is acknowledged.
    #[arg(long, default_value_t = 0)]
    pub work_ms: u64,
}

/// AMQP 0-9-1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Amqp {
    /// Its queues.
    pub queues: QueueOptions,
    /// Its messages.
    pub publish: PublishOptions,
    /// Its consumers.
    pub deliver: DeliverOptions,
}

/// A broker, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct AmqpDriver {
    /// Where it is.
    pub address: AmqpAddress,
    /// How it is spoken to.
    pub amqp: Amqp,
}

impl Default for QueueOptions {
    fn default() -> Self {
        by_default()
    }
}

impl Default for PublishOptions {
    fn default() -> Self {
        by_default()
    }
}

impl Default for DeliverOptions {
    fn default() -> Self {
        by_default()
    }
}

impl Amqp {
    /// For the report of a run.
    pub(crate) fn described(&self) -> serde_json::Value {
        serde_json::json!({ "amqp": self })
    }

    /// Checks every value against its bounds, for so many connections that publish and that consume.
    pub(crate) fn check(&self, publishing: usize, consuming: usize) -> Result<(), BenchError> {
        let DeliverOptions { consumer_channels, prefetch, auto_ack, ack_every, work_ms } = self.deliver;
        check_range("channels", self.publish.channels, 1, CHANNELS_MAX)?;
        check_range("channels of all connections", self.publish.channels * publishing, 0, CHANNELS_MAX)?;
        check_range("consumer channels", consumer_channels, 1, CHANNELS_MAX)?;
        check_range("consumer channels of all connections", consumer_channels * consuming, 0, 1 << 20)?;
        check_range("work ms", usize::try_from(work_ms).unwrap_or(usize::MAX), 0, WORK_MS_MAX as usize)?;
        for (name, text) in [("exchange", &self.publish.exchange), ("routing key", &self.publish.routing_key)] {
            check_range(name, text.len(), 0, usize::from(u8::MAX))?;
        }
        if !auto_ack && prefetch > 0 && ack_every > usize::from(prefetch) {
            let problem = format!("with {prefetch} messages unacknowledged at most, {ack_every} never come together");
            return Err(wrong("ack every", problem));
        }
        check_range("ack every", ack_every, 1, usize::MAX)
    }
}

fn argument(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
    if name.is_empty() || name.len() > usize::from(u8::MAX) {
        return Err("its name has to have 1 to 255 bytes");
    }
    Ok((name.to_owned(), value.to_owned()))
}
