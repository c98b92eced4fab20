//! Arguments of the class exchange (40).

use crate::amqp::argument::ShortString;
use crate::amqp::table::Table;

arguments! {
    /// An exchange is to be there.
    ExchangeDeclare<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        exchange: ShortString<'a>,
        /// `direct`, `fanout`, `topic`, `headers`.
        kind: ShortString<'a>,
        /// It is not made, only looked for.
        passive: bool,
        /// It outlives a restart.
        durable: bool,
        /// It goes with its last binding.
        auto_delete: bool,
        /// Clients cannot publish to it.
        internal: bool,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// It is.
    ExchangeDeclareOk {}
    /// An exchange is to go.
    ExchangeDelete<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        exchange: ShortString<'a>,
        /// Only if nothing is bound to it.
        if_unused: bool,
        /// No answer is wanted.
        no_wait: bool,
    }
    /// It has gone.
    ExchangeDeleteOk {}
    /// What one exchange gets, another is to get.
    ExchangeBind<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Which is to get it.
        destination: ShortString<'a>,
        /// From which.
        source: ShortString<'a>,
        /// Messages of which keys.
        routing_key: ShortString<'a>,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// It does.
    ExchangeBindOk {}
    /// It is to get it no longer.
    ExchangeUnbind<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Which has got it.
        destination: ShortString<'a>,
        /// From which.
        source: ShortString<'a>,
        /// Messages of which keys.
        routing_key: ShortString<'a>,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// It does not.
    ExchangeUnbindOk {}
}
