//! How a connection begins: what the server says of itself, and who the client proves to be.
//!
//! Source: AMQP 0-9-1 specification section 2.2.4, RFC 4616 (PLAIN), RabbitMQ's AMQPLAIN: a table with `LOGIN` and `PASSWORD`, and its
//! EXTERNAL: whoever the certificate of the connection names, whatever the client says.

use broker::{Access, ClientSaid};
use bytes::BytesMut;
use wire::amqp::argument::ShortString;
use wire::amqp::method::connection::{Start, StartOk};
use wire::amqp::table::{Table, TableWriter, Value, write_table};

use super::error::{Fault, code};
use super::link::Link;
use super::options::{AmqpOptions, CertificateUser};

/// Ways to prove who one is.
const MECHANISMS: &[u8] = b"AMQPLAIN PLAIN";

/// The same where the connection has proven it already.
const MECHANISMS_WITH_CERTIFICATE: &[u8] = b"AMQPLAIN PLAIN EXTERNAL";

/// What the server can; drivers switch features on by it.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// The server's first method is sent to `send`.
pub(super) fn start(options: &AmqpOptions, has_certificate: bool, send: impl FnOnce(Start<'_>)) {
    let mut properties = BytesMut::new();
    write_table(&mut properties, |table| server_properties(table, options));
    // Written here a moment ago, with its length in front.
    let server_properties = properties.get(size_of::<u32>()..).map(Table::read);
    let server_properties = server_properties.and_then(Result::ok).unwrap_or_default();
    let mechanisms = if has_certificate { MECHANISMS_WITH_CERTIFICATE } else { MECHANISMS };
    send(Start { version_major: 0, version_minor: 9, server_properties, mechanisms, locales: b"en_US" });
}

fn server_properties(table: &mut TableWriter<'_>, options: &AmqpOptions) {
    table.table("capabilities", |table| {
        for capability in CAPABILITIES {
            table.put(capability, Value::Bool(true));
        }
    });
    for (name, text) in [
        ("cluster_name", options.cluster_name.as_str()),
        ("copyright", "Apache-2.0"),
        ("information", "Sluice"),
        ("platform", "Rust"),
        ("product", &options.product),
        ("version", &options.version),
    ] {
        table.put(name, Value::LongString(text.as_bytes()));
    }
}

/// What the client said of what it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientCapabilities {
    /// It is told of consumers that end.
    pub(super) consumer_cancel_notify: bool,
    /// It is told that what it publishes has to wait.
    pub(super) connection_blocked: bool,
    /// It is told why it is not let in.
    pub(super) authentication_failure_close: bool,
}

impl ClientCapabilities {
    pub(super) fn of(properties: &Table<'_>) -> Self {
        let Some(Value::Table(capabilities)) = properties.get("capabilities") else { return Self::default() };
        let is_set = |name| capabilities.get(name) == Some(Value::Bool(true));
        Self {
            consumer_cancel_notify: is_set("consumer_cancel_notify"),
            connection_blocked: is_set("connection.blocked"),
            authentication_failure_close: is_set("authentication_failure_close"),
        }
    }
}

/// Bytes that are kept of each thing that a client says of itself.
const SAID_SIZE_MAX: usize = 128;

/// What the client says of itself.
pub(super) fn said_by_client(properties: &Table<'_>) -> ClientSaid {
    let text = |name| match properties.get(name) {
        Some(Value::LongString(bytes)) => {
            String::from_utf8_lossy(bytes.get(..SAID_SIZE_MAX).unwrap_or(bytes)).into_owned()
        }
        _ => String::new(),
    };
    ClientSaid {
        name: text("connection_name"),
        product: text("product"),
        version: text("version"),
        platform: text("platform"),
    }
}

/// Finds out who the client is; gives the user's name.
pub(super) fn authenticate(start: &StartOk<'_>, link: &Link) -> Result<String, Fault> {
    let (mechanism, access) = (start.mechanism, &link.broker.model.access);
    let proven = match (mechanism.bytes(), &link.subject) {
        (b"PLAIN", _) => plain(start.response).and_then(|given| by_password(given, access)),
        (b"AMQPLAIN", _) => amqplain(start.response)?.and_then(|given| by_password(given, access)),
        (b"EXTERNAL", Some(subject)) => {
            let user = match link.options.certificate_user {
                CertificateUser::CommonName => subject.common_name.as_deref(),
                CertificateUser::DistinguishedName => Some(&*subject.distinguished_name),
            };
            user.filter(|user| access.user(user).is_some())
        }
        _ => {
            let shown = String::from_utf8_lossy(mechanism.bytes()).into_owned();
            return Err(Fault::new(code::COMMAND_INVALID, format!("'{shown}' is not a supported SASL mechanism")));
        }
    };
    let user = proven.ok_or_else(|| refused(mechanism))?;
    if !link.address.ip().is_loopback() && link.options.loopback_users.iter().any(|known| known == user) {
        return Err(Fault::refused(format!("user '{user}' can only connect via localhost")));
    }
    Ok(user.to_owned())
}

fn refused(mechanism: ShortString<'_>) -> Fault {
    let mechanism = String::from_utf8_lossy(mechanism.bytes());
    Fault::refused(format!(
        "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    ))
}

/// User and password.
type Credentials<'a> = (&'a [u8], &'a [u8]);

/// The user, if that is the password.
fn by_password<'a>((user, password): Credentials<'a>, access: &Access) -> Option<&'a str> {
    let user = std::str::from_utf8(user).ok()?;
    access.is_password(user, password).then_some(user)
}

/// The name acted for, the user and the password, with zero bytes between them.
fn plain(response: &[u8]) -> Option<Credentials<'_>> {
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some((user, password))
}

fn amqplain(response: &[u8]) -> Result<Option<Credentials<'_>>, Fault> {
    let table = Table::read(response).map_err(|error| Fault::new(code::SYNTAX_ERROR, error.to_string()))?;
    let text = |name| match table.get(name) {
        Some(Value::LongString(text)) => Some(text),
        _ => None,
    };
    Ok(text("LOGIN").zip(text("PASSWORD")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_found_in_both_mechanisms() {
        assert_eq!(plain(b"\0guest\0pa\0ss"), Some((&b"guest"[..], &b"pa\0ss"[..])));
        assert_eq!(plain(b"other\0guest\0"), Some((&b"guest"[..], &b""[..])));
        assert_eq!(plain(b"\0guest"), None);
        let mut out = BytesMut::new();
        write_table(&mut out, |table| {
            table.put("LOGIN", Value::LongString(b"guest")).put("PASSWORD", Value::LongString(b"secret"));
        });
        assert_eq!(amqplain(&out[4..]), Ok(Some((&b"guest"[..], &b"secret"[..]))));
        assert_eq!(amqplain(b""), Ok(None));
        assert_eq!(amqplain(b"\x05LO").expect_err("no table").code, code::SYNTAX_ERROR);
    }

    #[test]
    fn what_the_client_can_is_in_its_properties() {
        let mut out = BytesMut::new();
        write_table(&mut out, |table| {
            table.table("capabilities", |table| {
                table.put("consumer_cancel_notify", Value::Bool(true)).put("authentication_failure_close", Value::Void);
            });
        });
        let read = ClientCapabilities::of(&Table::read(&out[4..]).expect("a table"));
        let expected = ClientCapabilities { consumer_cancel_notify: true, ..ClientCapabilities::default() };
        assert_eq!(read, expected);
        assert_eq!(ClientCapabilities::of(&Table::default()), ClientCapabilities::default());
    }

    #[test]
    fn what_a_client_says_of_itself_is_kept_in_short() {
        let (mut out, long) = (BytesMut::new(), "é".repeat(100));
        write_table(&mut out, |table| {
            table.put("connection_name", Value::LongString(b"billing"));
            table.put("product", Value::LongString(long.as_bytes()));
            table.put("version", Value::I64(3));
        });
        let said = said_by_client(&Table::read(&out[4..]).expect("a table"));
        assert_eq!((&*said.name, &*said.version, &*said.platform), ("billing", "", ""));
        assert_eq!(said.product, "é".repeat(64));
    }

    #[test]
    fn clients_are_told_what_the_server_can() {
        start(&AmqpOptions::default(), false, |start| {
            let Some(Value::Table(capabilities)) = start.server_properties.get("capabilities") else { panic!("none") };
            assert_eq!(capabilities.get("publisher_confirms"), Some(Value::Bool(true)));
            assert_eq!(capabilities.iter().count(), CAPABILITIES.len());
            assert_eq!(start.server_properties.get("product"), Some(Value::LongString(b"RabbitMQ")));
        });
    }
}
