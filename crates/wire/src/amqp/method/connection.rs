//! Arguments of the classes connection (10), channel (20) and access (30).

use crate::amqp::argument::ShortString;
use crate::amqp::table::Table;

arguments! {
    /// The server's first word.
    Start<'a> {
        /// 0.
        version_major: u8,
        /// 9.
        version_minor: u8,
        /// Who the server is, and what it can.
        server_properties: Table<'a>,
        /// Names, a space between them.
        mechanisms: &'a [u8],
        /// Names, a space between them.
        locales: &'a [u8],
    }
    /// The client chooses how it proves who it is.
    StartOk<'a> {
        /// Who the client is, and what it can.
        client_properties: Table<'a>,
        /// One of the server's.
        mechanism: ShortString<'a>,
        /// As the mechanism has it.
        response: &'a [u8],
        /// One of the server's.
        locale: ShortString<'a>,
    }
    /// The mechanism needs to know more.
    Secure<'a> {
        /// As the mechanism has it.
        challenge: &'a [u8],
    }
    /// What it needs to know.
    SecureOk<'a> {
        /// As the mechanism has it.
        response: &'a [u8],
    }
    /// What the server would agree on.
    Tune {
        /// Channels at one time; 0: no limit.
        channel_max: u16,
        /// Bytes of a frame; 0: no limit.
        frame_max: u32,
        /// Seconds between signs of life; 0: none are wanted.
        heartbeat: u16,
    }
    /// What is agreed on.
    TuneOk {
        /// Channels at one time; 0: no limit.
        channel_max: u16,
        /// Bytes of a frame; 0: no limit.
        frame_max: u32,
        /// Seconds between signs of life; 0: none are wanted.
        heartbeat: u16,
    }
    /// The client names its virtual host.
    Open<'a> {
        /// Its name.
        virtual_host: ShortString<'a>,
        /// Was: capabilities.
        reserved_1: ShortString<'a>,
        /// Was: insist.
        reserved_2: bool,
    }
    /// The connection is ready.
    OpenOk<'a> {
        /// Was: known hosts.
        reserved_1: ShortString<'a>,
    }
    /// The connection ends, and why.
    ConnectionClose<'a> {
        /// Reply code.
        reply_code: u16,
        /// The same for people.
        reply_text: ShortString<'a>,
        /// The method at fault, or 0.
        class_id: u16,
        /// The same.
        method_id: u16,
    }
    /// It has ended.
    ConnectionCloseOk {}
    /// The server takes no messages for now.
    Blocked<'a> {
        /// Why, for people.
        reason: ShortString<'a>,
    }
    /// It does again.
    Unblocked {}
    /// The client has another secret.
    UpdateSecret<'a> {
        /// Which.
        new_secret: &'a [u8],
        /// Why, for people.
        reason: ShortString<'a>,
    }
    /// It is taken.
    UpdateSecretOk {}
    /// A channel begins.
    ChannelOpen<'a> {
        /// Was: out of band.
        reserved_1: ShortString<'a>,
    }
    /// It has begun.
    ChannelOpenOk<'a> {
        /// Was: channel id.
        reserved_1: &'a [u8],
    }
    /// Whether the peer may send content.
    Flow {
        /// It may.
        active: bool,
    }
    /// It heeds that.
    FlowOk {
        /// It will.
        active: bool,
    }
    /// The channel ends, and why.
    ChannelClose<'a> {
        /// Reply code.
        reply_code: u16,
        /// The same for people.
        reply_text: ShortString<'a>,
        /// The method at fault, or 0.
        class_id: u16,
        /// The same.
        method_id: u16,
    }
    /// It has ended.
    ChannelCloseOk {}
    /// Asks for a right; of older clients.
    AccessRequest<'a> {
        /// To what.
        realm: ShortString<'a>,
        /// Alone.
        exclusive: bool,
        /// Whether it is there.
        passive: bool,
        /// To see it.
        active: bool,
        /// To write.
        write: bool,
        /// To read.
        read: bool,
    }
    /// It is had.
    AccessRequestOk {
        /// 1.
        ticket: u16,
    }
}
