//! A connection before it has much under way: it says who it is, opens channels, makes queues, one request after the other.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use bytes::BytesMut;
use wire::amqp::argument::ShortString;
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{ConfirmSelect, Qos};
use wire::amqp::method::connection::{ChannelOpen, ConnectionClose, ConnectionCloseOk, Open, StartOk, TuneOk};
use wire::amqp::table::{Table, Value, write_table};

use crate::amqp::address::AmqpAddress;
use crate::error::ClientError;
use crate::link::{Link, connect};
use crate::socket::Socket;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const READ_SIZE: usize = 64 * 1024;
/// What brokers are told of the client, so that they tell more in turn.
const CAPABILITIES: [&str; 5] = [
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
];
const REPLY_SUCCESS: u16 = 200;

/// A connection that answers one request after the other.
#[derive(Debug)]
pub struct Control {
    socket: Socket,
    address: String,
    input: Vec<u8>,
    /// What was agreed on.
    frame_max: usize,
    channel_max: u16,
}

impl Control {
    /// Connects, and opens the virtual host.
    pub fn open(to: &AmqpAddress) -> Result<Self, ClientError> {
        let socket = connect("broker", &to.address)?;
        let address = to.address.clone();
        let mut control =
            Self { socket, address, input: Vec::new(), frame_max: frame::SIZE_MIN, channel_max: u16::MAX };
        control.answer_within(ANSWER_TIMEOUT)?;
        control.write(&PROTOCOL_HEADER)?;
        let greeted =
            control.wait(0, "the protocol's header", |method| matches!(method, Method::Start(_)).then_some(()));
        greeted.map_err(|error| match error {
            // Whoever does not know the header hangs up.
            ClientError::Lost { address, problem } => ClientError::NotAmqp { address, problem },
            other => other,
        })?;
        control.log_in(to)?;
        Ok(control)
    }

    fn log_in(&mut self, to: &AmqpAddress) -> Result<(), ClientError> {
        let mut properties = BytesMut::new();
        write_table(&mut properties, |table| {
            table.put("product", Value::LongString(b"sluice"));
            table.table("capabilities", |table| {
                for capability in CAPABILITIES {
                    table.put(capability, Value::Bool(true));
                }
            });
        });
        let client_properties = table_of(&properties);
        let response = format!("\0{}\0{}", to.user, to.password);
        let (mechanism, locale) = (ShortString::cut(b"PLAIN"), ShortString::cut(b"en_US"));
        let start_ok = StartOk { client_properties, mechanism, response: response.as_bytes(), locale };
        let tune = self.ask(0, &start_ok.into(), |method| match method {
            Method::Tune(tune) => Some(*tune),
            _ => None,
        })?;
        let or_most = |agreed: u32, most: u32| if agreed == 0 { most } else { agreed };
        self.channel_max = u16::try_from(or_most(tune.channel_max.into(), u16::MAX.into())).unwrap_or(u16::MAX);
        self.frame_max = or_most(tune.frame_max, READ_SIZE as u32) as usize;
        // No signs of life: what is under way shows who is alive.
        let frame_max = u32::try_from(self.frame_max).unwrap_or(u32::MAX);
        self.say(0, &TuneOk { channel_max: self.channel_max, frame_max, heartbeat: 0 }.into())?;
        let virtual_host = short("virtual host", &to.virtual_host)?;
        let open = Open { virtual_host, ..Open::default() };
        self.ask(0, &open.into(), |method| matches!(method, Method::OpenOk(_)).then_some(()))
    }

    /// The largest frame that may be sent.
    pub const fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Waits no longer than this for what is asked from here on.
    pub fn answer_within(&self, limit: Duration) -> Result<(), ClientError> {
        let unreachable = |source| ClientError::Unreachable { role: "broker", address: self.address.clone(), source };
        let (stream, limit) = (self.socket.stream(), Some(limit.max(Duration::from_millis(1))));
        stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit)).map_err(unreachable)
    }

    /// Opens the channels `1..=count`.
    pub fn open_channels(&mut self, count: usize) -> Result<(), ClientError> {
        let max = usize::from(self.channel_max);
        if count > max {
            let problem = format!("{} allows {max} on a connection, not {count}", self.address);
            return Err(ClientError::Unusable { what: "number of channels", problem });
        }
        for channel in (1..=u16::MAX).take(count) {
            let open = ChannelOpen::default().into();
            self.ask(channel, &open, |method| matches!(method, Method::ChannelOpenOk(_)).then_some(()))?;
        }
        Ok(())
    }

    /// Asks for confirms.
    pub fn select_confirms(&mut self, channel: u16) -> Result<(), ClientError> {
        let select = ConfirmSelect { no_wait: false }.into();
        self.ask(channel, &select, |method| matches!(method, Method::ConfirmSelectOk(_)).then_some(()))
    }

    /// Says how much each consumer of the channel may have unacknowledged.
    pub fn set_prefetch(&mut self, channel: u16, prefetch_count: u16) -> Result<(), ClientError> {
        let qos = Qos { prefetch_size: 0, prefetch_count, global: false }.into();
        self.ask(channel, &qos, |method| matches!(method, Method::QosOk(_)).then_some(()))
    }

    /// The connection by itself, without anything that was read of it.
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    /// The connection for much under way.
    pub fn into_link(self) -> Result<Link, ClientError> {
        Link::over(self.socket, &self.address)
    }

    /// Ends the connection in order.
    pub fn close(mut self) -> Result<(), ClientError> {
        self.ask(0, &closing(), |method| matches!(method, Method::ConnectionCloseOk(_)).then_some(()))
    }

    /// Asks, and waits for the answer that `take` takes; what else comes is passed over.
    pub fn ask<T>(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        take: impl FnMut(&Method<'_>) -> Option<T>,
    ) -> Result<T, ClientError> {
        self.say(channel, method)?;
        self.wait(channel, method.name(), take)
    }

    /// Says something.
    pub fn say(&mut self, channel: u16, method: &Method<'_>) -> Result<(), ClientError> {
        let mut out = BytesMut::new();
        encode_method(&mut out, channel, method);
        self.write(&out)
    }

    /// Writes frames as they are.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.socket.write_all(bytes).and_then(|()| self.socket.flush()).map_err(|error| lost(&self.address, &error))
    }

    /// Waits for a method that `take` takes; `asked` is what it answers.
    pub fn wait<T>(
        &mut self,
        channel: u16,
        asked: &'static str,
        mut take: impl FnMut(&Method<'_>) -> Option<T>,
    ) -> Result<T, ClientError> {
        loop {
            let frame = frame::decode(&self.input, self.frame_max.max(READ_SIZE));
            let frame = frame.map_err(|error| not_amqp(&self.address, error.to_string()))?;
            let Some(frame) = frame else {
                self.read()?;
                continue;
            };
            let size = frame.size();
            let taken = if frame.kind == Kind::Method {
                let method = Method::decode(frame.payload);
                let method = method.map_err(|error| not_amqp(&self.address, error.to_string()))?;
                let refused = match &method {
                    Method::ConnectionClose(close) => Some((close.reply_code, close.reply_text)),
                    Method::ChannelClose(close) if frame.channel == channel => {
                        Some((close.reply_code, close.reply_text))
                    }
                    _ => None,
                };
                if let Some((code, text)) = refused {
                    let text = String::from_utf8_lossy(text.bytes()).into_owned();
                    return Err(ClientError::RefusedMethod { asked, address: self.address.clone(), code, text });
                }
                if frame.channel == channel { take(&method) } else { None }
            } else {
                None
            };
            self.input.drain(..size);
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    fn read(&mut self) -> Result<(), ClientError> {
        let mut chunk = vec![0; READ_SIZE];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(lost(&self.address, &io::Error::from(ErrorKind::UnexpectedEof))),
                Ok(size) => {
                    self.input.extend_from_slice(&chunk[..size]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&self.address, &error)),
            }
        }
    }
}

/// A name as the protocol carries it: 255 bytes at most.
pub fn short<'a>(what: &'static str, text: &'a str) -> Result<ShortString<'a>, ClientError> {
    let problem = || format!("{text:?} has more than 255 bytes");
    ShortString::new(text.as_bytes()).ok_or_else(|| ClientError::Unusable { what, problem: problem() })
}

/// The end of a connection.
pub fn closing() -> Method<'static> {
    let reply_text = ShortString::cut(b"done");
    ConnectionClose { reply_code: REPLY_SUCCESS, reply_text, class_id: 0, method_id: 0 }.into()
}

/// The answer to the broker's end of a connection.
pub fn closed() -> Method<'static> {
    ConnectionCloseOk {}.into()
}

/// Writes a method's frame.
pub fn encode_method(out: &mut BytesMut, channel: u16, method: &Method<'_>) {
    frame::encode(out, Kind::Method, channel, |out| method.encode(out));
}

/// A table that was just written, its length in front.
pub fn table_of(written: &[u8]) -> Table<'_> {
    // What was written here can be read.
    Table::read(written.get(size_of::<u32>()..).unwrap_or_default()).unwrap_or_default()
}

fn lost(address: &str, error: &io::Error) -> ClientError {
    let problem = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".to_owned(),
        ErrorKind::UnexpectedEof => "it was closed at the other end".to_owned(),
        _ => error.to_string(),
    };
    ClientError::Lost { address: address.to_owned(), problem }
}

fn not_amqp(address: &str, problem: String) -> ClientError {
    ClientError::NotAmqp { address: address.to_owned(), problem }
}
