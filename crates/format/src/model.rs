//! Virtual hosts, users, exchanges, message queues and bindings: their changes of state, and the tables that these lead to.
//!
//! What is not durable is in no change: it goes with the process. Names are bytes, as their protocol has them; texts of field tables are kept
//! as they came, for whoever asks for them again. Everything here is in absolute values: a change may be applied twice.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name or an opaque text.
pub type Text = Box<[u8]>;

/// A namespace of exchanges and queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualHostSettings {
    /// What it is for, to people.
    pub description: String,
}

/// What is kept of a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    /// Written before the password.
    pub salt: [u8; 4],
    /// SHA-256 of both.
    pub sha256: [u8; 32],
}

/// Somebody who connects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSettings {
    /// None: nobody can be this user by a password.
    pub password: Option<PasswordHash>,
    /// What the user may do beside messages: `administrator`, `monitoring`, `impersonator` and the like.
    pub tags: Vec<String>,
}

/// What a user may do in a virtual host, each as a regular expression of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionSettings {
    /// Make and remove.
    pub configure: String,
    /// Publish and bind to.
    pub write: String,
    /// Consume and bind from.
    pub read: String,
}

/// What a user may do with messages of a topic exchange, each as a regular expression of keys. `{username}` and `{vhost}` in it stand for
/// the user and the virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPermissionSettings {
    /// Publish by which keys.
    pub write: String,
    /// Bind by which keys.
    pub read: String,
}

/// How much there may be in a virtual host; none: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLimits {
    /// Connections.
    pub connections_max: Option<u32>,
    /// Queues.
    pub queues_max: Option<u32>,
}

/// How much a user may have at one time; none: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLimits {
    /// Connections.
    pub connections_max: Option<u32>,
    /// Channels, on all connections together.
    pub channels_max: Option<u32>,
}

/// How an exchange chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RoutingKind {
    /// By equal keys.
    Direct,
    /// Everything goes everywhere.
    Fanout,
    /// By patterns of keys.
    Topic,
    /// By headers.
    Headers,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeState {
    /// How it chooses.
    pub kind: RoutingKind,
    /// Whether it goes with its last binding.
    pub auto_delete: bool,
    /// Whether only exchanges give it messages.
    pub internal: bool,
    /// Which exchange gets what it routes nowhere.
    pub alternate: Option<Text>,
    /// As they came.
    pub arguments: Text,
}

/// What happens to a message for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overflow {
    /// The oldest goes.
    #[default]
    DropHead,
    /// It is refused.
    Reject,
    /// It is refused, and becomes a dead letter.
    RejectAndDeadLetter,
}

/// What a queue is called by those who made it. All are one thing here; what is allowed differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueKind {
    /// May be anything.
    #[default]
    Classic,
    /// Always durable and shared.
    Quorum,
    /// The same, and read by offset: nobody takes anything away.
    Stream,
}

/// Limits and rules of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRules {
    /// What it is called.
    pub kind: QueueKind,
    /// How long a message may wait, ms; of a stream, how long it is kept.
    pub time_to_live_ms: Option<u64>,
    /// How long it may be unused, ms.
    pub expires_ms: Option<u64>,
    /// Messages that may be ready.
    pub length_max: Option<u64>,
    /// Bytes of bodies that may be ready.
    pub size_max: Option<u64>,
    /// What happens above these.
    pub overflow: Overflow,
    /// Where dead letters go.
    pub dead_letter_exchange: Option<Text>,
    /// By which key; none: those they came by.
    pub dead_letter_key: Option<Text>,
    /// The highest priority; 0: there is only one.
    pub priority_max: u8,
    /// Whether only one consumer gets messages at a time.
    pub is_single_active: bool,
    /// How often a message may come again.
    pub redeliveries_max: Option<u32>,
}

impl QueueRules {
    /// Whether there may be too many messages, or too many bytes of them.
    pub const fn has_length_limit(&self) -> bool {
        self.length_max.is_some() || self.size_max.is_some()
    }
}

/// A message queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueState {
    /// Its virtual host.
    pub host: String,
    /// Its name.
    pub name: Text,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// What holds for it.
    pub rules: QueueRules,
    /// As they came.
    pub arguments: Text,
}

/// Where a binding leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BoundTo {
    /// The queue of that number.
    Queue(u32),
    /// The exchange of that name.
    Exchange(Text),
}

/// Which binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BindingName {
    /// From which exchange.
    pub source: Text,
    /// To what.
    pub to: BoundTo,
    /// By which key.
    pub key: Text,
    /// As they came.
    pub arguments: Text,
}

/// Which headers a binding asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderPattern {
    /// Whether one of them is enough.
    pub any: bool,
    /// Whether names that begin with `x-` count.
    pub with_x: bool,
    /// Names, each with a value, type included, or with any.
    pub wanted: Vec<(Text, Option<Text>)>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelChange {
    /// A virtual host is there.
    Host(String, VirtualHostSettings),
    /// It is not there, nor anything in it.
    HostRemoved(String),
    /// A user is there.
    User(String, UserSettings),
    /// It is not there, nor what it may do.
    UserRemoved(String),
    /// In a virtual host a user may do this.
    Permission(String, String, PermissionSettings),
    /// In a virtual host a user may do nothing.
    PermissionRemoved(String, String),
    /// A virtual host has an exchange.
    Exchange(String, Text, ExchangeState),
    /// It does not.
    ExchangeRemoved(String, Text),
    /// The queue of a number is there.
    Queue(u32, QueueState),
    /// It is not there, nor its messages.
    QueueRemoved(u32),
    /// A virtual host has a binding.
    Binding(String, BindingName, Option<HeaderPattern>),
    /// It does not.
    BindingRemoved(String, BindingName),
    /// Numbers of queues from this one on were never given out.
    NumbersBelow(u32),
    /// In a virtual host a user may do this with messages of an exchange.
    TopicPermission(String, String, Text, TopicPermissionSettings),
    /// Its messages are a user's like those of any other.
    TopicPermissionRemoved(String, String, Text),
    /// A virtual host has these limits, and no others.
    HostLimits(String, HostLimits),
    /// A user has these.
    UserLimits(String, UserLimits),
}

/// What a change is about: of two about the same the later counts. In the order in which changes can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ModelSubject {
    /// Numbers of queues.
    Numbers,
    /// A virtual host.
    Host(String),
    /// How much may be in it.
    HostLimits(String),
    /// A user.
    User(String),
    /// How much a user may have.
    UserLimits(String),
    /// What a user may do in a virtual host.
    Permission(String, String),
    /// With messages of an exchange.
    TopicPermission(String, String, Text),
    /// An exchange of a virtual host.
    Exchange(String, Text),
    /// A queue.
    Queue(u32),
    /// A binding of a virtual host.
    Binding(String, BindingName),
}

impl ModelChange {
    /// What it is about.
    pub fn subject(&self) -> ModelSubject {
        match self {
            Self::NumbersBelow(_) => ModelSubject::Numbers,
            Self::Host(name, _) | Self::HostRemoved(name) => ModelSubject::Host(name.clone()),
            Self::User(name, _) | Self::UserRemoved(name) => ModelSubject::User(name.clone()),
            Self::Permission(host, user, _) | Self::PermissionRemoved(host, user) => {
                ModelSubject::Permission(host.clone(), user.clone())
            }
            Self::TopicPermission(host, user, exchange, _) | Self::TopicPermissionRemoved(host, user, exchange) => {
                ModelSubject::TopicPermission(host.clone(), user.clone(), exchange.clone())
            }
            Self::HostLimits(host, _) => ModelSubject::HostLimits(host.clone()),
            Self::UserLimits(user, _) => ModelSubject::UserLimits(user.clone()),
            Self::Exchange(host, name, _) | Self::ExchangeRemoved(host, name) => {
                ModelSubject::Exchange(host.clone(), name.clone())
            }
            Self::Queue(number, _) | Self::QueueRemoved(number) => ModelSubject::Queue(*number),
            Self::Binding(host, name, _) | Self::BindingRemoved(host, name) => {
                ModelSubject::Binding(host.clone(), name.clone())
            }
        }
    }
}

impl ModelSubject {
    /// The change by which it is not there; numbers that were given out stay so.
    pub fn removal(&self) -> Option<ModelChange> {
        match self.clone() {
            Self::Numbers => None,
            Self::Host(name) => Some(ModelChange::HostRemoved(name)),
            Self::User(name) => Some(ModelChange::UserRemoved(name)),
            Self::HostLimits(host) => Some(ModelChange::HostLimits(host, HostLimits::default())),
            Self::UserLimits(user) => Some(ModelChange::UserLimits(user, UserLimits::default())),
            Self::Permission(host, user) => Some(ModelChange::PermissionRemoved(host, user)),
            Self::TopicPermission(host, user, exchange) => {
                Some(ModelChange::TopicPermissionRemoved(host, user, exchange))
            }
            Self::Exchange(host, name) => Some(ModelChange::ExchangeRemoved(host, name)),
            Self::Queue(number) => Some(ModelChange::QueueRemoved(number)),
            Self::Binding(host, name) => Some(ModelChange::BindingRemoved(host, name)),
        }
    }
}

/// For people who look at a log.
impl fmt::Display for ModelChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let bound = |name: &BindingName| {
            let to = match &name.to {
                BoundTo::Queue(number) => format!("queue number {number}"),
                BoundTo::Exchange(name) => format!("exchange [{}]", text(name)),
            };
            format!("[{}] to {to} by key [{}]", text(&name.source), text(&name.key))
        };
        match self {
            Self::Host(name, _) => write!(out, "virtual host [{name}]"),
            Self::HostRemoved(name) => write!(out, "virtual host [{name}] is removed"),
            Self::User(name, settings) => write!(out, "user {name}, tags {:?}", settings.tags),
            Self::UserRemoved(name) => write!(out, "user {name} is removed"),
            Self::Permission(host, user, PermissionSettings { configure, write, read }) => {
                write!(out, "user {user} may in [{host}] configure [{configure}], write [{write}], read [{read}]")
            }
            Self::PermissionRemoved(host, user) => write!(out, "user {user} may do nothing in [{host}]"),
            Self::TopicPermission(host, user, exchange, TopicPermissionSettings { write, read }) => {
                let exchange = text(exchange);
                write!(
                    out,
                    "user {user} may in [{host}] write [{write}], read [{read}] as keys of exchange [{exchange}]"
                )
            }
            Self::TopicPermissionRemoved(host, user, exchange) => {
                write!(out, "user {user} may in [{host}] use all keys of exchange [{}]", text(exchange))
            }
            Self::HostLimits(name, HostLimits { connections_max, queues_max }) => {
                let (connections, queues) = (shown_limit(*connections_max), shown_limit(*queues_max));
                write!(out, "virtual host [{name}] may have {connections} connections, {queues} queues")
            }
            Self::UserLimits(name, UserLimits { connections_max, channels_max }) => {
                let (connections, channels) = (shown_limit(*connections_max), shown_limit(*channels_max));
                write!(out, "user {name} may have {connections} connections, {channels} channels")
            }
            Self::Exchange(host, name, state) => {
                write!(out, "exchange [{}] in [{host}]: {:?}", text(name), state.kind)
            }
            Self::ExchangeRemoved(host, name) => write!(out, "exchange [{}] in [{host}] is removed", text(name)),
            Self::Queue(number, state) => {
                write!(out, "queue [{}] in [{}] is number {number}", text(&state.name), state.host)
            }
            Self::QueueRemoved(number) => write!(out, "queue number {number} is removed"),
            Self::Binding(host, name, _) => write!(out, "binding in [{host}] from {}", bound(name)),
            Self::BindingRemoved(host, name) => write!(out, "binding in [{host}] from {} is removed", bound(name)),
            Self::NumbersBelow(number) => write!(out, "numbers of queues below {number} may be taken"),
        }
    }
}

fn shown_limit(most: Option<u32>) -> String {
    most.map_or("any number of".to_owned(), |most| format!("at most {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_tables::ModelTables;

    fn text(text: &str) -> Text {
        text.as_bytes().into()
    }

    fn binding(key: &str) -> BindingName {
        BindingName { source: text("x"), to: BoundTo::Queue(7), key: text(key), arguments: text("") }
    }

    fn changes() -> Vec<ModelChange> {
        let queue = QueueState {
            host: "/".to_owned(),
            name: text("q"),
            auto_delete: false,
            rules: QueueRules { length_max: Some(9), ..QueueRules::default() },
            arguments: text("\0"),
        };
        let exchange = ExchangeState {
            kind: RoutingKind::Topic,
            auto_delete: true,
            internal: false,
            alternate: Some(text("other")),
            arguments: text(""),
        };
        let pattern = HeaderPattern { any: true, with_x: false, wanted: vec![(text("a"), None)] };
        vec![
            ModelChange::NumbersBelow(64),
            ModelChange::Host("/".to_owned(), VirtualHostSettings::default()),
            ModelChange::HostLimits("/".to_owned(), HostLimits { queues_max: Some(0), ..HostLimits::default() }),
            ModelChange::User("guest".to_owned(), UserSettings::default()),
            ModelChange::UserLimits("guest".to_owned(), UserLimits { channels_max: Some(9), ..UserLimits::default() }),
            ModelChange::Permission("/".to_owned(), "guest".to_owned(), PermissionSettings::default()),
            ModelChange::TopicPermission(
                "/".to_owned(),
                "guest".to_owned(),
                text("x"),
                TopicPermissionSettings { write: "^{username}".to_owned(), read: ".*".to_owned() },
            ),
            ModelChange::Exchange("/".to_owned(), text("x"), exchange),
            ModelChange::Queue(7, queue),
            ModelChange::Binding("/".to_owned(), binding("a"), Some(pattern)),
        ]
    }

    #[test]
    fn tables_are_told_by_their_changes_and_forget_what_is_removed() {
        let mut tables = ModelTables::default();
        changes().into_iter().for_each(|change| tables.apply(change));
        assert_eq!(tables.all_changes().collect::<Vec<_>>(), changes());
        let removed = [
            ModelChange::BindingRemoved("/".to_owned(), binding("a")),
            ModelChange::QueueRemoved(7),
            ModelChange::ExchangeRemoved("/".to_owned(), text("x")),
            ModelChange::TopicPermissionRemoved("/".to_owned(), "guest".to_owned(), text("x")),
            ModelChange::PermissionRemoved("/".to_owned(), "guest".to_owned()),
            ModelChange::UserLimits("guest".to_owned(), UserLimits::default()),
            ModelChange::UserRemoved("guest".to_owned()),
            ModelChange::HostLimits("/".to_owned(), HostLimits::default()),
            ModelChange::HostRemoved("/".to_owned()),
        ];
        for (removed, made) in removed.iter().rev().zip(changes().iter().skip(1)) {
            assert_eq!(removed.subject(), made.subject(), "{made}: {removed}");
        }
        removed.into_iter().for_each(|change| tables.apply(change));
        assert_eq!(
            tables.all_changes().collect::<Vec<_>>(),
            [ModelChange::NumbersBelow(64)],
            "numbers never come again"
        );
    }
}
