//! A message that may be published: what it says of itself, where it goes, and what of it is stored.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use broker::{MessageQueue, RoutedMessage, Shown};
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::table::{Table, Value};

use super::error::{Fault, code};
use super::headers::{with_properties, without_blind_copies};
use super::link::Link;
use super::replies::REPLY_TO;

/// The longest time that a message may wait, ms: ten years.
const EXPIRATION_MAX_MS: u64 = 315_360_000_000;

/// A message that is all there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) exchange: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) mandatory: bool,
    /// The header's frame.
    pub(super) header: &'a [u8],
    pub(super) body: &'a [u8],
    /// Where direct replies to it are sent, if somebody waits for them.
    pub(super) reply_address: Option<&'a [u8]>,
}

/// Where a message goes.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// To queues, of which there is one at least.
    Queues(Arc<[Arc<MessageQueue>]>),
    /// To a channel that waits for direct replies.
    Reply,
    /// Nobody wants it.
    Nowhere,
}

/// A message that may be published.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) way: Way,
    /// As it is stored.
    header: Cow<'a, [u8]>,
    priority: u8,
    time_to_live_ms: Option<u64>,
    is_persistent: bool,
}

/// What a message says of itself, once that was looked at.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) properties: Properties<'a>,
    /// Whether these are others than came.
    is_changed: bool,
    time_to_live_ms: Option<u64>,
    pub(super) copies: Copies<'a>,
}

impl<'a> Said<'a> {
    /// By a message that came on this connection.
    pub(super) fn by(message: &Message<'a>, link: &mut Link) -> Result<Self, Fault> {
        let ContentHeader { properties, .. } =
            ContentHeader::decode(message.header).map_err(|error| Fault::new(code::SYNTAX_ERROR, error.to_string()))?;
        check_user(&properties, link)?;
        let wants_replies = properties.reply_to.is_some_and(|reply_to| reply_to.bytes() == REPLY_TO);
        let properties = if wants_replies { with_reply_address(properties, message)? } else { properties };
        let time_to_live_ms = expiration_of(&properties)?;
        let copies = match &properties.headers {
            Some(headers) if !headers.is_empty() => Copies::of(headers)?,
            _ => Copies::default(),
        };
        Ok(Self { properties, is_changed: wants_replies, time_to_live_ms, copies })
    }

    /// The message as it goes its way.
    pub(super) fn prepared(self, message: &Message<'a>, way: Way) -> Prepared<'a> {
        let Self { properties, is_changed, time_to_live_ms, copies } = self;
        let header = if !matches!(way, Way::Queues(_)) {
            Cow::Borrowed(message.header)
        } else if copies.has_blind {
            without_blind_copies(message.header, &properties).into()
        } else if is_changed {
            with_properties(message.header, properties).into()
        } else {
            Cow::Borrowed(message.header)
        };
        let is_persistent = properties.delivery_mode == Some(PERSISTENT);
        Prepared { way, header, priority: properties.priority.unwrap_or_default(), time_to_live_ms, is_persistent }
    }
}

impl Prepared<'_> {
    /// As the model has it, from a producer at that address.
    pub(super) fn routed<'a>(&'a self, message: &'a Message<'a>, born_host: SocketAddr) -> RoutedMessage<'a> {
        RoutedMessage {
            exchange: message.exchange,
            key: message.key,
            header: &self.header,
            body: std::slice::from_ref(&message.body),
            priority: self.priority,
            time_to_live_ms: self.time_to_live_ms,
            is_persistent: self.is_persistent,
            born_host,
            deaths: 0,
        }
    }
}

/// Further keys that a message names itself.
#[derive(Debug, Default)]
pub(super) struct Copies<'a> {
    pub(super) keys: Vec<&'a [u8]>,
    has_blind: bool,
}

impl<'a> Copies<'a> {
    fn of(headers: &Table<'a>) -> Result<Self, Fault> {
        let mut copies = Self::default();
        for (name, value) in headers.iter() {
            let is_blind = match name.bytes() {
                b"CC" => false,
                b"BCC" => true,
                _ => continue,
            };
            let bad = || {
                Fault::precondition(format!("invalid header '{}': it must be an array of strings", Shown(name.bytes())))
            };
            let Value::Array(keys) = value else { return Err(bad()) };
            for key in keys.iter() {
                let Value::LongString(key) = key else { return Err(bad()) };
                copies.keys.push(key);
            }
            copies.has_blind |= is_blind;
        }
        Ok(copies)
    }
}

/// A message may say who sent it only if that is so.
fn check_user(properties: &Properties<'_>, link: &mut Link) -> Result<(), Fault> {
    let Some(claimed) = properties.user_id else { return Ok(()) };
    let user = link.login()?.user.clone();
    if claimed.bytes() == user.as_bytes() {
        return Ok(());
    }
    let settings = link.broker.model.access.user(&user).unwrap_or_default();
    if settings.tags.iter().any(|tag| tag == "impersonator") {
        return Ok(());
    }
    let claimed = Shown(claimed.bytes());
    Err(Fault::precondition(format!("user_id property set to '{claimed}' but authenticated user was '{user}'")))
}

/// How long a message may wait, ms.
fn expiration_of(properties: &Properties<'_>) -> Result<Option<u64>, Fault> {
    let Some(expiration) = properties.expiration else { return Ok(None) };
    let digits = expiration.text().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let time = digits.and_then(|digits| digits.parse().ok()).filter(|time| *time <= EXPIRATION_MAX_MS);
    match time {
        Some(time) => Ok(Some(time)),
        None => {
            let shown = Shown(expiration.bytes());
            Err(Fault::precondition(format!("invalid expiration '{shown}': milliseconds in digits are expected")))
        }
    }
}

/// A message that wants direct replies says where these are to be sent.
fn with_reply_address<'a>(properties: Properties<'a>, message: &Message<'a>) -> Result<Properties<'a>, Fault> {
    let address = message.reply_address;
    let address = address.ok_or_else(|| Fault::precondition("fast reply consumer does not exist"))?;
    Ok(Properties { reply_to: Some(ShortString::cut(address)), ..properties })
}
