//! The model at a start: what the log tells of it, and what is there from the first start on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use base::metric::Metrics;
use base::{Now, QueueNumber, Refusal};
use format::model::{ModelChange, PermissionSettings, QueueState, UserSettings, VirtualHostSettings};
use format::model_tables::ModelTables;
use format::state::StateChange;
use parking_lot::{Mutex, RwLock};
use storage::StorageError;

use super::access::{Access, hash_password};
use super::change::{changes_of, kind_of, settings_of, spec_of};
use super::connections::Connections;
use super::followed::{numbers_of, state_change};
use super::message_queue::{MessageQueue, QueueWish};
use super::sweep::Timers;
use super::virtual_host::VirtualHost;
use super::{Model, ModelOptions, Numbers};
use crate::cursor::lanes::Lanes;
use crate::publish::Publisher;
use crate::routing::ExchangeSettings;
use crate::state::StateLog;

/// What of a broker the model works with.
pub(crate) struct Parts<'a> {
    pub(crate) state: &'a Arc<StateLog>,
    pub(crate) publisher: &'a Arc<Publisher>,
    pub(crate) lanes: &'a Arc<Lanes>,
    pub(crate) metrics: &'a Arc<Metrics>,
}

impl Model {
    /// What the tables tell. Message queues of which there is something left, and that they do not know of, are on their way out.
    pub(crate) fn open(
        tables: ModelTables,
        options: ModelOptions,
        parts: &Parts<'_>,
        now: Now,
    ) -> Result<Self, StorageError> {
        let store = parts.state.store();
        let (followed, tables) =
            if store.follows() { (tables, ModelTables::default()) } else { (ModelTables::default(), tables) };
        let below = tables.numbers_below;
        let model = Self {
            store: store.clone(),
            state: parts.state.clone(),
            publisher: parts.publisher.clone(),
            lanes: parts.lanes.clone(),
            metrics: parts.metrics.clone(),
            options,
            access: Access::default(),
            connections: Connections::default(),
            hosts: RwLock::new(BTreeMap::new()),
            changing: Mutex::new(Numbers { next: below, below }),
            owned: Mutex::default(),
            leaving: Mutex::new(Vec::new()),
            timers: Timers::default(),
            followed: Mutex::new(followed),
            last_connection: AtomicU64::new(0),
            last_channel: AtomicU32::new(0),
        };
        for change in tables.all_changes() {
            model.take_in(change, now).map_err(|refusal| StorageError::Damaged {
                path: store.directory().join("state"),
                problem: refusal.to_string(),
            })?;
        }
        if !store.follows() {
            let lanes = model.lanes.of(|_, _| true);
            let left = store.message_queues().into_iter().chain(numbers_of(lanes.iter().map(String::as_str)));
            let unknown: BTreeSet<_> = left.filter(|number| !tables.queues.contains_key(&number.0)).collect();
            model.leaving.lock().extend(unknown);
        }
        Ok(model)
    }

    /// The last process did not stop in an orderly way: what is in queues may have been delivered, and nobody knows.
    pub(crate) fn doubt_deliveries(&self) {
        let queues = self.hosts().into_iter().flat_map(|host| host.queues());
        queues.flat_map(|queue| queue.lanes()).for_each(|lane| lane.doubt_all());
    }

    /// Has there what a first start makes: the user only if `has_first_user`, since one that was removed may not come back.
    /// `salt` is random.
    pub(crate) fn begin(&self, salt: [u8; 4], has_first_user: bool, now: Now) -> Result<(), Refusal> {
        let Some(host) = self.options.first_host.clone() else { return Ok(()) };
        if self.changing.lock().below > 0 || !self.hosts.read().is_empty() || !self.access.users().is_empty() {
            return Ok(());
        }
        let (user, password) = self.options.first_user.clone();
        let settings = UserSettings {
            password: Some(hash_password(password.as_bytes(), salt)),
            tags: vec!["administrator".to_owned()],
        };
        let all = || ".*".to_owned();
        let allowed = PermissionSettings { configure: all(), write: all(), read: all() };
        let mut made = vec![ModelChange::Host(host.clone(), VirtualHostSettings::default())];
        if has_first_user {
            made.push(ModelChange::User(user.clone(), settings));
            made.push(ModelChange::Permission(host, user, allowed));
        }
        self.propose(made.clone(), now)?;
        made.into_iter().try_for_each(|change| self.take_in(change, now))
    }

    /// Makes a change that the log tells of.
    pub(crate) fn take_in(&self, change: ModelChange, now: Now) -> Result<(), Refusal> {
        match change {
            ModelChange::Host(name, settings) => {
                self.hosts
                    .write()
                    .entry(name.as_str().into())
                    .or_insert_with(|| Arc::new(self.new_host(&name, settings)));
            }
            ModelChange::HostRemoved(name) => drop(self.hosts.write().remove(name.as_str())),
            ModelChange::HostLimits(host, limits) => self.with_host(&host, |host| *host.limits.write() = limits),
            ModelChange::Exchange(host, name, state) => {
                self.with_host(&host, |host| host.table.write().router.put_exchange(&name, settings_of(state)));
            }
            ModelChange::ExchangeRemoved(host, name) => {
                self.with_host(&host, |host| drop(host.table.write().router.remove_exchange(&name)));
            }
            ModelChange::Queue(number, state) => self.take_in_queue(QueueNumber(number), state, now)?,
            ModelChange::QueueRemoved(number) => {
                for host in self.hosts() {
                    let mut table = host.table.write();
                    if let Some(queue) = table.by_number.remove(&QueueNumber(number)) {
                        table.queues.remove(queue.name());
                        table.router.remove_queue(queue.number());
                        queue.note_gone();
                        host.note_change();
                    }
                }
            }
            ModelChange::Binding(host, name, pattern) => {
                self.with_host(&host, |host| drop(host.table.write().router.bind(spec_of(name, pattern))));
            }
            ModelChange::BindingRemoved(host, name) => {
                self.with_host(&host, |host| drop(host.table.write().router.unbind(&spec_of(name, None))));
            }
            ModelChange::NumbersBelow(below) => {
                let mut numbers = self.changing.lock();
                numbers.below = numbers.below.max(below);
                numbers.next = numbers.next.max(below);
            }
            change => self.access.take_in(&change)?,
        }
        Ok(())
    }

    /// Changes that lead to all that outlives a restart.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        if self.store.follows() {
            return self.followed_changes();
        }
        let numbers = self.changing.lock();
        let below = (numbers.below > 0).then_some(ModelChange::NumbersBelow(numbers.below));
        let hosts = self.hosts().into_iter().flat_map(|host| changes_of(&host, |name| self.is_given(name)));
        let all = below.into_iter().chain(hosts).chain(self.access.changes());
        all.map(state_change).collect()
    }

    fn new_host(&self, name: &str, settings: VirtualHostSettings) -> VirtualHost {
        let host = VirtualHost::new(name, settings);
        let mut table = host.table.write();
        for (exchange, kind, internal) in &self.options.exchanges {
            let settings = ExchangeSettings {
                kind: kind_of(*kind),
                durable: true,
                auto_delete: false,
                internal: *internal,
                alternate: None,
                arguments: Box::default(),
            };
            table.router.put_exchange(exchange, settings);
        }
        drop(table);
        host
    }

    fn with_host(&self, name: &str, act: impl FnOnce(&VirtualHost)) {
        let host = self.hosts.read().get(name).cloned();
        if let Some(host) = host {
            act(&host);
            host.note_change();
        }
    }

    fn take_in_queue(&self, number: QueueNumber, state: QueueState, now: Now) -> Result<(), Refusal> {
        let QueueState { host, name, auto_delete, rules, arguments } = state;
        let host = self.hosts.read().get(host.as_str()).cloned();
        let Some(host) = host.filter(|host| !host.table.read().by_number.contains_key(&number)) else { return Ok(()) };
        let wish = QueueWish { name, is_durable: true, owner: None, auto_delete, rules, arguments };
        let queue = MessageQueue::open((number, host.name()), wish, &self.store, &self.lanes, now.monotonic)?;
        let queue = Arc::new(queue);
        self.timers.watch_use(&queue);
        self.timers.watch_messages(&queue, now.wall);
        let mut table = host.table.write();
        table.queues.insert(queue.name().into(), queue.clone());
        table.by_number.insert(number, queue);
        drop(table);
        host.note_change();
        Ok(())
    }
}
