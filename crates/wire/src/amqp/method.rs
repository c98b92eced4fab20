//! Methods: what a frame of that kind says. Class and number of each as in the specification, with RabbitMQ's `basic.nack`,
//! `confirm.select`, `exchange.bind`, `connection.blocked` and `connection.update-secret`.
//!
//! Arguments that the specification reserves are read and left alone; they are written as nothing.

use base::cursor::DecodeError;
use bytes::{BufMut, BytesMut};

use super::argument::{ArgumentReader, ArgumentWriter};

/// Class and number of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodId {
    /// Class.
    pub class: u16,
    /// Number within the class.
    pub method: u16,
}

/// Why a frame is no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// Nobody knows it (503).
    #[error("there is no method {} of class {}", .0.method, .0.class)]
    Unknown(MethodId),
    /// Its arguments cannot be read (502).
    #[error("{name}: {error}")]
    Malformed {
        /// Which it is.
        id: MethodId,
        /// Its name.
        name: &'static str,
        /// What is wrong.
        error: DecodeError,
    },
    /// Not even that (502).
    #[error("a method's class and number need 4 bytes, and there are {0}")]
    NoId(usize),
}

/// What a method says.
trait Arguments<'a>: Sized {
    fn read(reader: &mut ArgumentReader<'a>) -> Result<Self, DecodeError>;

    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl<'a> $crate::amqp::method::Arguments<'a> for $name $(<$life>)? {
            fn read(
                _reader: &mut $crate::amqp::argument::ArgumentReader<'a>,
            ) -> Result<Self, base::cursor::DecodeError> {
                Ok(Self {
                    $($field: $crate::amqp::argument::Argument::read(_reader, stringify!($field))?,)*
                })
            }

            fn write(&self, _writer: &mut $crate::amqp::argument::ArgumentWriter<'_>) {
                $($crate::amqp::argument::Argument::write(&self.$field, _writer);)*
            }
        }
    )*};
}

pub mod basic;
pub mod connection;
pub mod exchange;
pub mod queue;

macro_rules! methods {
    ($($class:literal $number:literal $text:literal $file:ident :: $name:ident $(<$life:lifetime>)?;)*) => {
        /// A method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $(
                #[doc = concat!("`", $text, "`")]
                $name($file::$name $(<$life>)?),
            )*
        }

        $(
            impl<'a> From<$file::$name $(<$life>)?> for Method<'a> {
                fn from(method: $file::$name $(<$life>)?) -> Self {
                    Self::$name(method)
                }
            }
        )*

        impl<'a> Method<'a> {
            /// Class and number.
            pub const fn id(&self) -> MethodId {
                match self {
                    $(Self::$name(_) => MethodId { class: $class, method: $number },)*
                }
            }

            /// Its name, as in the specification.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $text,)*
                }
            }

            /// What a frame of that kind says.
            pub fn decode(payload: &'a [u8]) -> Result<Self, MethodError> {
                let Some(([c0, c1, m0, m1], arguments)) = payload.split_first_chunk() else {
                    return Err(MethodError::NoId(payload.len()));
                };
                let id = MethodId { class: u16::from_be_bytes([*c0, *c1]), method: u16::from_be_bytes([*m0, *m1]) };
                let reader = &mut ArgumentReader::new(arguments);
                match (id.class, id.method) {
                    $(
                        ($class, $number) => {
                            let read = Arguments::read(reader).and_then(|read| reader.end().map(|()| read));
                            read.map(Self::$name).map_err(|error| MethodError::Malformed { id, name: $text, error })
                        }
                    )*
                    _ => Err(MethodError::Unknown(id)),
                }
            }

            /// Writes what a frame of that kind says.
            pub fn encode(&self, out: &mut BytesMut) {
                let MethodId { class, method } = self.id();
                out.put_u16(class);
                out.put_u16(method);
                let writer = &mut ArgumentWriter::new(out);
                match self {
                    $(Self::$name(said) => said.write(writer),)*
                }
            }
        }

        #[cfg(test)]
        /// One of each, as empty as can be.
        fn one_of_each() -> Vec<Method<'static>> {
            vec![$($file::$name::default().into(),)*]
        }
    };
}

methods! {
    10 10 "connection.start" connection::Start<'a>;
    10 11 "connection.start-ok" connection::StartOk<'a>;
    10 20 "connection.secure" connection::Secure<'a>;
    10 21 "connection.secure-ok" connection::SecureOk<'a>;
    10 30 "connection.tune" connection::Tune;
    10 31 "connection.tune-ok" connection::TuneOk;
    10 40 "connection.open" connection::Open<'a>;
    10 41 "connection.open-ok" connection::OpenOk<'a>;
    10 50 "connection.close" connection::ConnectionClose<'a>;
    10 51 "connection.close-ok" connection::ConnectionCloseOk;
    10 60 "connection.blocked" connection::Blocked<'a>;
    10 61 "connection.unblocked" connection::Unblocked;
    10 70 "connection.update-secret" connection::UpdateSecret<'a>;
    10 71 "connection.update-secret-ok" connection::UpdateSecretOk;
    20 10 "channel.open" connection::ChannelOpen<'a>;
    20 11 "channel.open-ok" connection::ChannelOpenOk<'a>;
    20 20 "channel.flow" connection::Flow;
    20 21 "channel.flow-ok" connection::FlowOk;
    20 40 "channel.close" connection::ChannelClose<'a>;
    20 41 "channel.close-ok" connection::ChannelCloseOk;
    30 10 "access.request" connection::AccessRequest<'a>;
    30 11 "access.request-ok" connection::AccessRequestOk;
    40 10 "exchange.declare" exchange::ExchangeDeclare<'a>;
    40 11 "exchange.declare-ok" exchange::ExchangeDeclareOk;
    40 20 "exchange.delete" exchange::ExchangeDelete<'a>;
    40 21 "exchange.delete-ok" exchange::ExchangeDeleteOk;
    40 30 "exchange.bind" exchange::ExchangeBind<'a>;
    40 31 "exchange.bind-ok" exchange::ExchangeBindOk;
    40 40 "exchange.unbind" exchange::ExchangeUnbind<'a>;
    40 51 "exchange.unbind-ok" exchange::ExchangeUnbindOk;
    50 10 "queue.declare" queue::QueueDeclare<'a>;
    50 11 "queue.declare-ok" queue::QueueDeclareOk<'a>;
    50 20 "queue.bind" queue::QueueBind<'a>;
    50 21 "queue.bind-ok" queue::QueueBindOk;
    50 30 "queue.purge" queue::QueuePurge<'a>;
    50 31 "queue.purge-ok" queue::QueuePurgeOk;
    50 40 "queue.delete" queue::QueueDelete<'a>;
    50 41 "queue.delete-ok" queue::QueueDeleteOk;
    50 50 "queue.unbind" queue::QueueUnbind<'a>;
    50 51 "queue.unbind-ok" queue::QueueUnbindOk;
    60 10 "basic.qos" basic::Qos;
    60 11 "basic.qos-ok" basic::QosOk;
    60 20 "basic.consume" basic::Consume<'a>;
    60 21 "basic.consume-ok" basic::ConsumeOk<'a>;
    60 30 "basic.cancel" basic::Cancel<'a>;
    60 31 "basic.cancel-ok" basic::CancelOk<'a>;
    60 40 "basic.publish" basic::Publish<'a>;
    60 50 "basic.return" basic::Return<'a>;
    60 60 "basic.deliver" basic::Deliver<'a>;
    60 70 "basic.get" basic::Get<'a>;
    60 71 "basic.get-ok" basic::GetOk<'a>;
    60 72 "basic.get-empty" basic::GetEmpty<'a>;
    60 80 "basic.ack" basic::Ack;
    60 90 "basic.reject" basic::Reject;
    60 100 "basic.recover-async" basic::RecoverAsync;
    60 110 "basic.recover" basic::Recover;
    60 111 "basic.recover-ok" basic::RecoverOk;
    60 120 "basic.nack" basic::Nack;
    85 10 "confirm.select" basic::ConfirmSelect;
    85 11 "confirm.select-ok" basic::ConfirmSelectOk;
    90 10 "tx.select" basic::TxSelect;
    90 11 "tx.select-ok" basic::TxSelectOk;
    90 20 "tx.commit" basic::TxCommit;
    90 21 "tx.commit-ok" basic::TxCommitOk;
    90 30 "tx.rollback" basic::TxRollback;
    90 31 "tx.rollback-ok" basic::TxRollbackOk;
}

impl Method<'_> {
    /// Whether content follows.
    pub const fn has_content(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Return(_) | Self::Deliver(_) | Self::GetOk(_))
    }
}

#[cfg(test)]
mod tests {
    use super::basic::{Deliver, Nack};
    use super::connection::AccessRequest;
    use super::queue::QueueDeclare;
    use super::*;
    use crate::amqp::argument::ShortString;

    fn short(text: &str) -> ShortString<'_> {
        ShortString::new(text.as_bytes()).expect("short")
    }

    fn encoded(method: impl Into<Method<'static>>) -> Vec<u8> {
        let mut out = BytesMut::new();
        method.into().encode(&mut out);
        out.to_vec()
    }

    #[test]
    fn every_method_comes_back_and_has_a_name_and_number_of_its_own() {
        let all = one_of_each();
        for method in &all {
            let mut out = BytesMut::new();
            method.encode(&mut out);
            assert_eq!(Method::decode(&out).as_ref(), Ok(method), "{}", method.name());
            assert_eq!(all.iter().filter(|other| other.id() == method.id()).count(), 1, "{}", method.name());
            assert_eq!(all.iter().filter(|other| other.name() == method.name()).count(), 1, "{}", method.name());
            let is_malformed = |bytes: &[u8]| matches!(Method::decode(bytes), Err(MethodError::Malformed { .. }));
            assert!(is_malformed(&[&out[..], b"\x00"].concat()), "{} and a byte more", method.name());
            if out.len() > 4 {
                assert!(is_malformed(&out[..out.len() - 1]), "{} and a byte less", method.name());
            }
        }
    }

    /// Bits share an octet, the first in the lowest place.
    #[test]
    fn bits_are_packed_as_the_specification_says() {
        let declare = QueueDeclare { queue: short("q"), durable: true, auto_delete: true, ..QueueDeclare::default() };
        assert_eq!(encoded(declare), b"\x00\x32\x00\x0a\x00\x00\x01q\x0a\x00\x00\x00\x00");
        let request = AccessRequest { realm: short("/data"), read: true, ..AccessRequest::default() };
        assert_eq!(encoded(request), b"\x00\x1e\x00\x0a\x05/data\x10");
        assert_eq!(
            encoded(Nack { delivery_tag: 7, multiple: true, requeue: true }),
            b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x07\x03"
        );
        let deliver = Deliver {
            consumer_tag: short("c"),
            delivery_tag: 1,
            redelivered: true,
            exchange: short("e"),
            routing_key: short("k"),
        };
        assert_eq!(encoded(deliver), b"\x00\x3c\x00\x3c\x01c\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01e\x01k");
    }

    #[test]
    fn what_is_no_method_is_told_by_name_where_it_has_one() {
        assert_eq!(Method::decode(b"\x00\x0a"), Err(MethodError::NoId(2)));
        let unknown = MethodId { class: 60, method: 200 };
        assert_eq!(Method::decode(b"\x00\x3c\x00\xc8"), Err(MethodError::Unknown(unknown)));
        let error = Method::decode(b"\x00\x3c\x00\x50\x00").expect_err("too short").to_string();
        assert!(error.contains("basic.ack") && error.contains("delivery_tag"), "{error}");
    }
}
