//! A virtual host: a namespace of exchanges, bindings and queues.
//!
//! **Always holds**: a binding leads to something that is there; whatever changes, `generation` does too, so that a route that was found
//! before is known to be old.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::QueueNumber;
use format::model::{HeaderPattern, HostLimits, Text, VirtualHostSettings};
use parking_lot::RwLock;

use super::error::ModelError;
use super::message_queue::{ConnectionNumber, MessageQueue};
use crate::routing::{BindingSpec, Destination, ExchangeSettings, Headers, Router, Routing};

/// The exchange that has every queue bound by its name, and that nobody makes.
pub const DEFAULT_EXCHANGE: &[u8] = b"";

/// A virtual host.
#[derive(Debug)]
pub struct VirtualHost {
    name: Arc<str>,
    settings: VirtualHostSettings,
    pub(super) limits: RwLock<HostLimits>,
    pub(super) table: RwLock<Table>,
    generation: AtomicU64,
    is_gone: AtomicBool,
}

/// What is in it.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) router: Router,
    pub(super) queues: HashMap<Text, Arc<MessageQueue>>,
    pub(super) by_number: HashMap<QueueNumber, Arc<MessageQueue>>,
}

/// Messages of what key go from an exchange to what.
#[derive(Clone, Debug)]
pub struct BindingWish {
    /// From which exchange.
    pub source: Text,
    /// To which queue or exchange.
    pub to: BindingTarget,
    /// By which key.
    pub key: Text,
    /// In the order of their names, by which it is the same whatever order they came in.
    pub arguments: Text,
    /// What headers are asked for.
    pub pattern: Option<HeaderPattern>,
}

/// What a binding leads to, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingTarget {
    /// A queue.
    Queue(Text),
    /// An exchange.
    Exchange(Text),
}

/// A binding, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingShown {
    /// From which exchange.
    pub source: Text,
    /// To what.
    pub to: BindingTarget,
    /// By which key.
    pub key: Text,
    /// In the order of their names, by which it is the same whatever order they came in.
    pub arguments: Text,
}

impl VirtualHost {
    pub(super) fn new(name: &str, settings: VirtualHostSettings) -> Self {
        Self {
            name: name.into(),
            settings,
            limits: RwLock::default(),
            table: RwLock::default(),
            generation: AtomicU64::new(1),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its settings.
    pub const fn settings(&self) -> &VirtualHostSettings {
        &self.settings
    }

    /// How much may be in it.
    pub fn limits(&self) -> HostLimits {
        *self.limits.read()
    }

    /// Changes whenever anything in it does.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it was removed.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    pub(super) fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// A queue that a connection may use.
    pub fn queue(&self, name: &[u8], who: ConnectionNumber) -> Result<Arc<MessageQueue>, ModelError> {
        let queue = self.queue_of_anybody(name)?;
        if queue.wish().owner.is_some_and(|owner| owner != who) {
            return Err(ModelError::Locked { host: self.name.clone(), name: name.into() });
        }
        Ok(queue)
    }

    /// A queue, whosever it is.
    pub fn queue_of_anybody(&self, name: &[u8]) -> Result<Arc<MessageQueue>, ModelError> {
        let queue = self.table.read().queues.get(name).cloned();
        queue.ok_or_else(|| self.no_such_queue(name))
    }

    /// Every queue, sorted by name.
    pub fn queues(&self) -> Vec<Arc<MessageQueue>> {
        let mut queues: Vec<_> = self.table.read().queues.values().cloned().collect();
        queues.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        queues
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> usize {
        self.table.read().queues.len()
    }

    /// An exchange's settings.
    pub fn exchange(&self, name: &[u8]) -> Result<ExchangeSettings, ModelError> {
        self.table.read().router.exchange(name).cloned().ok_or_else(|| self.no_such_exchange(name))
    }

    /// Every exchange but the default one, sorted by name.
    pub fn exchanges(&self) -> Vec<(Text, ExchangeSettings)> {
        let table = self.table.read();
        table.router.exchanges().map(|(name, settings)| (name.into(), settings.clone())).collect()
    }

    /// Every binding but those of the default exchange.
    pub fn bindings(&self) -> Vec<BindingShown> {
        let table = self.table.read();
        table.router.bindings().filter_map(|binding| table.shown(binding)).collect()
    }

    /// The queues that get a message, each once. `false`: there is no such exchange. What `out` has is kept.
    pub fn route(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        headers: Option<&dyn Headers>,
        out: &mut Vec<Arc<MessageQueue>>,
    ) -> bool {
        let table = self.table.read();
        if exchange == DEFAULT_EXCHANGE {
            let begin = out.len();
            for queue in keys.iter().filter_map(|key| table.queues.get(*key)) {
                if !out.iter().skip(begin).any(|known| Arc::ptr_eq(known, queue)) {
                    out.push(queue.clone());
                }
            }
            return true;
        }
        let mut numbers = Vec::new();
        let routed = table.router.route(exchange, keys, headers, &mut numbers);
        out.extend(numbers.iter().filter_map(|number| table.by_number.get(number).cloned()));
        routed != Routing::NoSuchExchange
    }

    /// Whether the queues that get a message depend on more than its keys.
    pub fn depends_on_headers(&self, exchange: &[u8]) -> bool {
        self.table.read().router.depends_on_headers(exchange)
    }

    pub(super) fn no_such_queue(&self, name: &[u8]) -> ModelError {
        ModelError::NoSuchQueue { host: self.name.clone(), name: name.into() }
    }

    pub(super) fn no_such_exchange(&self, name: &[u8]) -> ModelError {
        ModelError::NoSuchExchange { host: self.name.clone(), name: name.into() }
    }
}

impl Table {
    /// Whether a binding outlives a restart: both its ends do.
    pub(super) fn is_durable(&self, binding: &BindingSpec) -> bool {
        let is_exchange = |name: &[u8]| self.router.exchange(name).is_some_and(|exchange| exchange.durable);
        is_exchange(&binding.source)
            && match &binding.destination {
                Destination::Queue(number) => self.by_number.get(number).is_some_and(|queue| queue.wish().is_durable),
                Destination::Exchange(name) => is_exchange(name),
            }
    }

    fn shown(&self, binding: &BindingSpec) -> Option<BindingShown> {
        let to = match &binding.destination {
            Destination::Queue(number) => BindingTarget::Queue(self.by_number.get(number)?.name().into()),
            Destination::Exchange(name) => BindingTarget::Exchange(name.clone()),
        };
        let BindingSpec { source, key, arguments, .. } = binding.clone();
        Some(BindingShown { source, to, key, arguments })
    }
}
