//! Arguments of the class queue (50).

use crate::amqp::argument::ShortString;
use crate::amqp::table::Table;

arguments! {
    /// A queue is to be there.
    QueueDeclare<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name; empty: the server makes one.
        queue: ShortString<'a>,
        /// It is not made, only looked for.
        passive: bool,
        /// It outlives a restart.
        durable: bool,
        /// Only this connection may use it, and it goes with that.
        exclusive: bool,
        /// It goes with its last consumer.
        auto_delete: bool,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// It is.
    QueueDeclareOk<'a> {
        /// Its name.
        queue: ShortString<'a>,
        /// Messages that are ready.
        message_count: u32,
        /// Consumers.
        consumer_count: u32,
    }
    /// A queue is to get messages of an exchange.
    QueueBind<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name; empty: the last that the channel declared.
        queue: ShortString<'a>,
        /// From which.
        exchange: ShortString<'a>,
        /// Messages of which keys.
        routing_key: ShortString<'a>,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// It does.
    QueueBindOk {}
    /// Its ready messages are to go.
    QueuePurge<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        queue: ShortString<'a>,
        /// No answer is wanted.
        no_wait: bool,
    }
    /// They have gone.
    QueuePurgeOk {
        /// So many.
        message_count: u32,
    }
    /// A queue is to go.
    QueueDelete<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        queue: ShortString<'a>,
        /// Only if it has no consumers.
        if_unused: bool,
        /// Only if it has no messages.
        if_empty: bool,
        /// No answer is wanted.
        no_wait: bool,
    }
    /// It has gone.
    QueueDeleteOk {
        /// With so many messages.
        message_count: u32,
    }
    /// A queue is to get those messages no longer.
    QueueUnbind<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        queue: ShortString<'a>,
        /// From which.
        exchange: ShortString<'a>,
        /// Messages of which keys.
        routing_key: ShortString<'a>,
        /// More.
        arguments: Table<'a>,
    }
    /// It does not.
    QueueUnbindOk {}
}
