//! The queues of a run, and where its messages go so that they come there.

use std::time::Duration;

use bytes::BytesMut;
use client::ClientError;
use client::amqp::control::{Control, short, table_of};
use wire::amqp::method::Method;
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDeclare, QueuePurge};
use wire::amqp::table::{Value, write_table};

use crate::amqp::options::{Amqp, ExchangeKind, QueueOptions};
use crate::error::BenchError;
use crate::load::options::{RunOptions, names, wrong};
use crate::load::progress::ProgressSink;

/// The channel on which they are made.
const CHANNEL: u16 = 1;
/// How long a broker may take to empty one.
const EMPTY_WITHIN: Duration = Duration::from_secs(120);

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Exchange; empty: that which knows every queue by its name.
    pub exchange: String,
    /// Key.
    pub routing_key: String,
}

/// Queues, and the way to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Their names.
    pub queues: Vec<String>,
    /// Messages go there in turn.
    pub places: Vec<Place>,
    /// In how many queues each message lies then.
    pub copies: u64,
    /// Messages that were ready in all of them together.
    pub ready: u64,
    /// Who consumed of them.
    pub consumers: u64,
}

/// Makes queues where the run says how many, and else sees whether its one queue is there.
pub fn topology_of(
    run: &RunOptions,
    amqp: &Amqp,
    control: &mut Control,
    sink: &dyn ProgressSink,
) -> Result<Topology, BenchError> {
    if run.topics != 1 {
        return Err(wrong(
            "topics",
            "AMQP has queues alone: --queues N makes N of them, named TOPIC-0, TOPIC-1 and so on",
        ));
    }
    let queues = names(&run.topic, run.queues.unwrap_or(1));
    let is_made = run.queues.is_some();
    let publish = &amqp.publish;
    let has_exchange = !publish.exchange.is_empty();
    control.open_channels(1)?;
    if has_exchange {
        declare_exchange(control, amqp, is_made)?;
    }
    let arguments = arguments_of(&amqp.queues);
    let (mut ready, mut consumers) = (0, 0);
    for (made, name) in (0..).zip(&queues) {
        sink.prepare("queues looked at", made, queues.len() as u64);
        let found = declare_queue(control, name, (is_made, &amqp.queues), &arguments)?;
        (ready, consumers) = (ready + found.0, consumers + found.1);
        if has_exchange && is_made {
            bind(control, name, &publish.exchange, &publish.routing_key)?;
        }
    }
    let place = |exchange: &str, key: &str| Place { exchange: exchange.to_owned(), routing_key: key.to_owned() };
    let (places, copies) = if has_exchange {
        (vec![place(&publish.exchange, &publish.routing_key)], queues.len() as u64)
    } else {
        (queues.iter().map(|queue| place("", queue)).collect(), 1)
    };
    Ok(Topology { queues, places, copies, ready, consumers })
}

impl Topology {
    /// Takes what is ready away from all queues.
    pub fn empty(&self, control: &mut Control) -> Result<(), BenchError> {
        // There may be very much of it.
        control.answer_within(EMPTY_WITHIN)?;
        for queue in &self.queues {
            let purge = QueuePurge { queue: short("topic", queue)?, ..QueuePurge::default() };
            control.ask(CHANNEL, &purge.into(), |method| matches!(method, Method::QueuePurgeOk(_)).then_some(()))?;
        }
        Ok(())
    }

    /// A line for the report.
    pub fn described(&self, address: &str) -> Vec<String> {
        vec![format!("{address} ({} queues)", self.queues.len())]
    }
}

fn declare_exchange(control: &mut Control, amqp: &Amqp, is_made: bool) -> Result<(), ClientError> {
    let declare = ExchangeDeclare {
        exchange: short("exchange", &amqp.publish.exchange)?,
        kind: short("exchange kind", ExchangeKind::name(amqp.publish.exchange_kind))?,
        passive: !is_made,
        durable: !amqp.queues.transient_queues,
        ..ExchangeDeclare::default()
    };
    control.ask(CHANNEL, &declare.into(), |method| matches!(method, Method::ExchangeDeclareOk(_)).then_some(()))
}

/// Makes a queue, or sees that it is there; tells how many messages are ready in it.
/// Gives the messages that are ready, and the consumers.
fn declare_queue(
    control: &mut Control,
    name: &str,
    (is_made, options): (bool, &QueueOptions),
    arguments: &[u8],
) -> Result<(u64, u64), ClientError> {
    let declare = QueueDeclare {
        queue: short("topic", name)?,
        passive: !is_made,
        durable: !options.transient_queues,
        arguments: table_of(arguments),
        ..QueueDeclare::default()
    };
    control.ask(CHANNEL, &declare.into(), |method| match method {
        Method::QueueDeclareOk(found) => Some((u64::from(found.message_count), u64::from(found.consumer_count))),
        _ => None,
    })
}

fn bind(control: &mut Control, queue: &str, exchange: &str, routing_key: &str) -> Result<(), ClientError> {
    let bind = QueueBind {
        queue: short("topic", queue)?,
        exchange: short("exchange", exchange)?,
        routing_key: short("routing key", routing_key)?,
        ..QueueBind::default()
    };
    control.ask(CHANNEL, &bind.into(), |method| matches!(method, Method::QueueBindOk(_)).then_some(()))
}

/// Arguments as a table; what looks like a number or a truth value is one.
fn arguments_of(options: &QueueOptions) -> BytesMut {
    let mut written = BytesMut::new();
    write_table(&mut written, |table| {
        for (name, text) in &options.queue_arguments {
            let value = match (text.parse(), text.parse()) {
                (Ok(number), _) => Value::I64(number),
                (_, Ok(is_so)) => Value::Bool(is_so),
                _ => Value::LongString(text.as_bytes()),
            };
            table.put(name, value);
        }
    });
    written
}
