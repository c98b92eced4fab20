//! Arguments of the classes basic (60), confirm (85) and tx (90).

use crate::amqp::argument::ShortString;
use crate::amqp::table::Table;

arguments! {
    /// How much may be on its way unacknowledged.
    Qos {
        /// Bytes: not supported.
        prefetch_size: u32,
        /// Messages; 0: no limit.
        prefetch_count: u16,
        /// To all consumers of the channel together.
        global: bool,
    }
    /// It is heeded.
    QosOk {}
    /// Messages of a queue are to come.
    Consume<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Its name.
        queue: ShortString<'a>,
        /// The consumer's name; empty: the server makes one.
        consumer_tag: ShortString<'a>,
        /// None of this connection's own; not supported.
        no_local: bool,
        /// They are settled when they are sent.
        no_ack: bool,
        /// No other consumer may be there.
        exclusive: bool,
        /// No answer is wanted.
        no_wait: bool,
        /// More.
        arguments: Table<'a>,
    }
    /// They will.
    ConsumeOk<'a> {
        /// The consumer's name.
        consumer_tag: ShortString<'a>,
    }
    /// No more are to come; from the server: no more will.
    Cancel<'a> {
        /// The consumer's name.
        consumer_tag: ShortString<'a>,
        /// No answer is wanted.
        no_wait: bool,
    }
    /// No more will.
    CancelOk<'a> {
        /// The consumer's name.
        consumer_tag: ShortString<'a>,
    }
    /// A message, whose content follows.
    Publish<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// To which exchange.
        exchange: ShortString<'a>,
        /// Its key.
        routing_key: ShortString<'a>,
        /// It comes back if no queue gets it.
        mandatory: bool,
        /// It comes back if no consumer gets it at once; not supported.
        immediate: bool,
    }
    /// It comes back; its content follows.
    Return<'a> {
        /// Reply code.
        reply_code: u16,
        /// The same for people.
        reply_text: ShortString<'a>,
        /// To which exchange it went.
        exchange: ShortString<'a>,
        /// Its key.
        routing_key: ShortString<'a>,
    }
    /// A message for a consumer, whose content follows.
    Deliver<'a> {
        /// The consumer's name.
        consumer_tag: ShortString<'a>,
        /// By which it is acknowledged.
        delivery_tag: u64,
        /// Somebody had it before.
        redelivered: bool,
        /// To which exchange it went.
        exchange: ShortString<'a>,
        /// Its key.
        routing_key: ShortString<'a>,
    }
    /// A single message is wanted.
    Get<'a> {
        /// Was: ticket.
        reserved_1: u16,
        /// Of which queue.
        queue: ShortString<'a>,
        /// It is settled when it is sent.
        no_ack: bool,
    }
    /// It, whose content follows.
    GetOk<'a> {
        /// By which it is acknowledged.
        delivery_tag: u64,
        /// Somebody had it before.
        redelivered: bool,
        /// To which exchange it went.
        exchange: ShortString<'a>,
        /// Its key.
        routing_key: ShortString<'a>,
        /// How many more are ready.
        message_count: u32,
    }
    /// There is none.
    GetEmpty<'a> {
        /// Was: cluster id.
        reserved_1: ShortString<'a>,
    }
    /// It is done; from the server: it is stored.
    Ack {
        /// Which.
        delivery_tag: u64,
        /// And all before.
        multiple: bool,
    }
    /// It is not.
    Reject {
        /// Which.
        delivery_tag: u64,
        /// Others are to get it.
        requeue: bool,
    }
    /// All that is unacknowledged is to come again; nobody answers.
    RecoverAsync {
        /// To anybody.
        requeue: bool,
    }
    /// The same, answered.
    Recover {
        /// To anybody.
        requeue: bool,
    }
    /// It will.
    RecoverOk {}
    /// It is not done; from the server: it is not stored.
    Nack {
        /// Which.
        delivery_tag: u64,
        /// And all before.
        multiple: bool,
        /// Others are to get it.
        requeue: bool,
    }
    /// Each message is to be confirmed.
    ConfirmSelect {
        /// No answer is wanted.
        no_wait: bool,
    }
    /// It will.
    ConfirmSelectOk {}
    /// Messages and acknowledgements are to wait for a commit.
    TxSelect {}
    /// They will.
    TxSelectOk {}
    /// Those that wait are to count.
    TxCommit {}
    /// They do.
    TxCommitOk {}
    /// Those that wait are to be forgotten.
    TxRollback {}
    /// They are.
    TxRollbackOk {}
}
