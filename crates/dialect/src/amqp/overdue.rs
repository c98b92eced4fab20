//! Messages that a client has and does not acknowledge: its channel is closed after a while, and others get them.
//!
//! Source: RabbitMQ's documentation of consumers, "Delivery Acknowledgement Timeout". It looks once a minute, and so does this.

use std::sync::Arc;

use base::Monotonic;
use broker::MessageQueue;
use wire::amqp::table::Table;

use super::arguments::TIMEOUT_ARGUMENT;
use super::channel::Channel;
use super::error::Fault;
use super::link::OVERDUE_LOOK_MS;
use super::session::AmqpSession;
use super::unacked::Delivered;

impl AmqpSession {
    /// Closes the channels that have had some message for too long.
    pub(super) fn watch_overdue(&mut self) {
        let now = self.core.link.now.monotonic;
        if self.core.link.overdue_at.is_none_or(|at| at > now) {
            return;
        }
        let usual_ms = self.core.link.options.consumer_timeout_ms;
        let overdue =
            self.channels.values().filter_map(|channel| Some((channel.number, overdue(channel, usual_ms, now)?)));
        for (number, timeout_ms) in overdue.collect::<Vec<_>>() {
            let text = format!(
                "delivery acknowledgement on channel {number} timed out. Timeout value used: {timeout_ms} ms. This timeout value can be configured, see consumers doc guide to learn more"
            );
            self.fail(number, &Fault::precondition(text));
        }
        let has_any = self.channels.values().any(|channel| channel.unacked.count() > 0);
        self.core.link.overdue_at = has_any.then(|| now.plus_ms(OVERDUE_LOOK_MS));
    }
}

/// The time that some message of a channel has passed, ms.
fn overdue(channel: &Channel, usual_ms: u64, now: Monotonic) -> Option<u64> {
    let mut last: Option<(&Arc<MessageQueue>, Option<u64>)> = None;
    channel.unacked.iter().find_map(|Delivered { queue, at, .. }| {
        let timeout_ms = match last {
            Some((known, timeout_ms)) if Arc::ptr_eq(known, queue) => timeout_ms,
            _ => timeout_ms_of(queue, usual_ms),
        };
        last = Some((queue, timeout_ms));
        timeout_ms.filter(|timeout_ms| at.plus_ms(*timeout_ms) <= now)
    })
}

/// How long a message of a queue may be with a client; `None`: for ever.
fn timeout_ms_of(queue: &MessageQueue, usual_ms: u64) -> Option<u64> {
    let own = Table::read(&queue.wish().arguments).ok().and_then(|table| table.get(TIMEOUT_ARGUMENT)?.integer());
    let timeout_ms = own.and_then(|own| u64::try_from(own).ok()).unwrap_or(usual_ms);
    (timeout_ms > 0).then_some(timeout_ms)
}
