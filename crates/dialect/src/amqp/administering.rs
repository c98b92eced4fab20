//! Exchanges, queues and bindings as administrators ask for them: by the rules that hold for clients, with arguments as JSON.
//!
//! An administrator is no user: permissions are not looked at. What is asked for is done when the method returns, and in the log when
//! the model's changes are written.

use std::sync::Arc;

use base::Now;
use broker::{
    BindingTarget, BindingWish, Broker, ConnectionNumber, DEFAULT_EXCHANGE, Deleted, ExchangeKind, ExchangeSettings,
    MessageQueue, ModelError, OnlyIf, QueueWish, Shown, VirtualHost,
};
use serde_json::{Map, Value as Json};
use wire::amqp::argument::ShortString;
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::Table;

use super::error::Fault;
use super::topology::{check_not_reserved, kind_of, other_exchange, other_queue};
use super::{arguments, json};

/// No connection has this number: what is one connection's alone is not the administrator's.
const NOBODY: ConnectionNumber = ConnectionNumber(0);

/// Why something was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AdminError {
    /// The model says so.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// It is there, and otherwise than was asked for.
    #[error("{0}")]
    Differs(String),
    /// It cannot be asked for.
    #[error("{0}")]
    Invalid(String),
}

/// An exchange that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AskedExchange<'a> {
    /// Its name.
    pub name: &'a str,
    /// What kind: `direct`, `fanout`, `topic` or `headers`.
    pub kind: &'a str,
    /// Whether it outlives a restart.
    pub durable: bool,
    /// Whether it goes with its last binding.
    pub auto_delete: bool,
    /// Whether only exchanges give it messages.
    pub internal: bool,
    /// Its arguments.
    pub arguments: &'a Map<String, Json>,
}

/// A queue that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AskedQueue<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it outlives a restart.
    pub durable: bool,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// Its arguments.
    pub arguments: &'a Map<String, Json>,
}

/// A binding that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AskedBinding<'a> {
    /// From which exchange.
    pub source: &'a str,
    /// To what.
    pub to: &'a BindingTarget,
    /// By which key.
    pub key: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Json>,
}

/// Somebody who administrates a virtual host.
#[derive(Debug)]
pub struct Administrator<'a> {
    broker: &'a Broker,
    host: Arc<VirtualHost>,
    now: Now,
}

impl<'a> Administrator<'a> {
    /// Of a virtual host of that name.
    pub fn new(broker: &'a Broker, host: &str, now: Now) -> Result<Self, AdminError> {
        Ok(Self { broker, host: broker.model.host(host)?, now })
    }

    /// The virtual host.
    pub const fn host(&self) -> &Arc<VirtualHost> {
        &self.host
    }

    /// Has an exchange there. One that is there already must be the same.
    pub fn declare_exchange(&self, asked: &AskedExchange<'_>) -> Result<(), AdminError> {
        let name = asked.name.as_bytes();
        self.check_new_name("exchange", name)?;
        let arguments = meant(asked.arguments)?;
        let table = table_of(&arguments)?;
        let settings = ExchangeSettings {
            kind: kind_of(asked.kind.as_bytes()).map_err(invalid)?,
            durable: asked.durable,
            auto_delete: asked.auto_delete,
            internal: asked.internal,
            alternate: arguments::alternate_exchange(table).map_err(invalid)?,
            arguments: table.bytes().into(),
        };
        let made = self.broker.model.declare_exchange(&self.host, name, settings.clone(), self.now);
        made.map_err(|error| match error {
            ModelError::OtherExchange(other) => {
                AdminError::Differs(other_exchange(name, &self.host, &settings, &other).why())
            }
            error => error.into(),
        })
    }

    /// Removes an exchange that is there, with its bindings.
    pub fn delete_exchange(&self, name: &str, if_unused: bool) -> Result<(), AdminError> {
        let name = name.as_bytes();
        self.check_own_exchange(name)?;
        check_not_reserved("exchange", name, &self.host).map_err(invalid)?;
        self.host.exchange(name)?;
        Ok(self.broker.model.remove_exchange(&self.host, name, if_unused, self.now)?)
    }

    /// Has a queue there. One that is there already must be the same.
    pub fn declare_queue(&self, asked: &AskedQueue<'_>) -> Result<Arc<MessageQueue>, AdminError> {
        let name = asked.name.as_bytes();
        self.check_new_name("queue", name)?;
        let arguments = meant(asked.arguments)?;
        let table = table_of(&arguments)?;
        let shown = format!("queue '{}' in vhost '{}'", asked.name, self.host.name());
        let rules = arguments::queue_rules(table, &shown).map_err(invalid)?;
        let as_method = QueueDeclare {
            queue: ShortString::cut(name),
            durable: asked.durable,
            auto_delete: asked.auto_delete,
            ..QueueDeclare::default()
        };
        arguments::check_kind(&rules, &as_method, &shown).map_err(invalid)?;
        let wish = QueueWish {
            name: name.into(),
            is_durable: asked.durable,
            owner: None,
            auto_delete: asked.auto_delete,
            rules,
            arguments: table.bytes().into(),
        };
        let made = self.broker.model.declare_queue(&self.host, wish.clone(), NOBODY, self.now);
        made.map(|(queue, _)| queue).map_err(|error| match error {
            ModelError::OtherQueue(known) => AdminError::Differs(other_queue(&known, &wish).why()),
            error => error.into(),
        })
    }

    /// A queue that is there, whosever it is.
    pub fn queue(&self, name: &str) -> Result<Arc<MessageQueue>, AdminError> {
        Ok(self.host.queue_of_anybody(name.as_bytes())?)
    }

    /// Removes a queue that is there, whosever it is.
    pub fn delete_queue(&self, name: &str, only_if: OnlyIf) -> Result<Deleted, AdminError> {
        Ok(self.broker.model.remove_queue(&self.host, &self.queue(name)?, only_if, self.now)?)
    }

    /// Has a binding there.
    pub fn bind(&self, asked: &AskedBinding<'_>) -> Result<(), AdminError> {
        let wish = self.binding_wish(asked)?;
        Ok(self.broker.model.bind(&self.host, wish, NOBODY, self.now)?)
    }

    /// Removes a binding that is there: by its arguments as they are shown, since JSON does not tell all types of them.
    pub fn unbind(&self, asked: &AskedBinding<'_>) -> Result<(), AdminError> {
        let (source, key) = (asked.source.as_bytes(), asked.key.as_bytes());
        self.check_own_exchange(source)?;
        let is_it = |known: &broker::BindingShown| {
            (&*known.source, &known.to, &*known.key) == (source, asked.to, key)
                && shown_arguments(&known.arguments) == *asked.arguments
        };
        let alike = self.host.bindings().into_iter().filter(is_it);
        // Of several that look alike, that which the same words would make.
        let meant = meant(asked.arguments).and_then(|bytes| Ok(table_of(&bytes)?.sorted())).ok();
        let known = alike.max_by_key(|known| meant.as_deref() == Some(&*known.arguments));
        let Some(broker::BindingShown { source, to, key, arguments }) = known else {
            return Err(AdminError::Model(ModelError::NoSuchBinding(format!(
                "from exchange '{}' by key '{}' with these arguments in vhost '{}'",
                Shown(source),
                Shown(key),
                self.host.name()
            ))));
        };
        let wish = BindingWish { source, to, key, arguments, pattern: None };
        Ok(self.broker.model.unbind(&self.host, wish, NOBODY, self.now)?)
    }

    fn binding_wish(&self, asked: &AskedBinding<'_>) -> Result<BindingWish, AdminError> {
        let source = asked.source.as_bytes();
        self.check_own_exchange(source)?;
        if let BindingTarget::Exchange(name) = asked.to {
            self.check_own_exchange(name)?;
        }
        check_short("key", asked.key.as_bytes())?;
        let arguments = meant(asked.arguments)?;
        let table = table_of(&arguments)?;
        let pattern = match self.host.exchange(source)?.kind {
            ExchangeKind::Headers => Some(arguments::header_pattern(table).map_err(invalid)?),
            _ => None,
        };
        let (to, key) = (asked.to.clone(), asked.key.as_bytes().into());
        Ok(BindingWish { source: source.into(), to, key, arguments: table.sorted().into(), pattern })
    }

    /// The name of something that is made, unless it is there already.
    fn check_new_name(&self, kind: &str, name: &[u8]) -> Result<(), AdminError> {
        if name.is_empty() {
            return Err(AdminError::Invalid(format!("the {kind} has no name")));
        }
        check_short("name", name)?;
        if name.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err(AdminError::Invalid("the name has line ends, which clients cannot name".to_owned()));
        }
        let is_there = match kind {
            "exchange" => self.host.exchange(name).is_ok(),
            _ => self.host.queue_of_anybody(name).is_ok(),
        };
        if is_there { Ok(()) } else { check_not_reserved(kind, name, &self.host).map_err(invalid) }
    }

    fn check_own_exchange(&self, name: &[u8]) -> Result<(), AdminError> {
        if name == DEFAULT_EXCHANGE {
            return Err(AdminError::Invalid("operation not permitted on the default exchange".to_owned()));
        }
        Ok(())
    }
}

/// Arguments as they are kept, as JSON.
pub fn shown_arguments(kept: &[u8]) -> Map<String, Json> {
    Table::read(kept).map(|table| json::shown(&table)).unwrap_or_default()
}

fn meant(arguments: &Map<String, Json>) -> Result<bytes::BytesMut, AdminError> {
    json::meant(arguments).map_err(|problem| AdminError::Invalid(format!("the arguments cannot be used: {problem}")))
}

fn table_of(bytes: &[u8]) -> Result<Table<'_>, AdminError> {
    Table::read(bytes).map_err(|error| AdminError::Invalid(error.to_string()))
}

fn check_short(what: &str, text: &[u8]) -> Result<(), AdminError> {
    match ShortString::new(text) {
        Some(_) => Ok(()),
        None => Err(AdminError::Invalid(format!("the {what} has more than {} bytes", ShortString::SIZE_MAX))),
    }
}

fn invalid(fault: Fault) -> AdminError {
    AdminError::Invalid(fault.why())
}
