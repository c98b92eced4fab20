//! What changes of virtual hosts and users lead to.
//!
//! **Always holds**: the same changes in the same order lead to the same tables, wherever they are made.

use std::collections::BTreeMap;

use crate::model::{
    BindingName, ExchangeState, HeaderPattern, HostLimits, ModelChange, PermissionSettings, QueueState, Text,
    TopicPermissionSettings, UserLimits, UserSettings, VirtualHostSettings,
};

/// All that is durable of virtual hosts and users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTables {
    /// Virtual hosts by name.
    pub hosts: BTreeMap<String, VirtualHostSettings>,
    /// Users by name.
    pub users: BTreeMap<String, UserSettings>,
    /// What users may do, by virtual host and user.
    pub permissions: BTreeMap<(String, String), PermissionSettings>,
    /// What users may do with messages of exchanges, by virtual host, user and exchange.
    pub topic_permissions: BTreeMap<(String, String, Text), TopicPermissionSettings>,
    /// Limits of virtual hosts that have any.
    pub host_limits: BTreeMap<String, HostLimits>,
    /// Limits of users who have any.
    pub user_limits: BTreeMap<String, UserLimits>,
    /// Exchanges by virtual host and name.
    pub exchanges: BTreeMap<(String, Text), ExchangeState>,
    /// Queues by number.
    pub queues: BTreeMap<u32, QueueState>,
    /// Bindings by virtual host and name.
    pub bindings: BTreeMap<(String, BindingName), Option<HeaderPattern>>,
    /// Numbers of queues from this one on were never given out.
    pub numbers_below: u32,
}

impl ModelTables {
    /// Takes in a change.
    pub fn apply(&mut self, change: ModelChange) {
        match change {
            ModelChange::Host(name, settings) => drop(self.hosts.insert(name, settings)),
            ModelChange::HostRemoved(name) => drop(self.hosts.remove(&name)),
            ModelChange::User(name, settings) => drop(self.users.insert(name, settings)),
            ModelChange::UserRemoved(name) => drop(self.users.remove(&name)),
            ModelChange::Permission(host, user, settings) => drop(self.permissions.insert((host, user), settings)),
            ModelChange::PermissionRemoved(host, user) => drop(self.permissions.remove(&(host, user))),
            ModelChange::TopicPermission(host, user, exchange, settings) => {
                self.topic_permissions.insert((host, user, exchange), settings);
            }
            ModelChange::TopicPermissionRemoved(host, user, exchange) => {
                self.topic_permissions.remove(&(host, user, exchange));
            }
            ModelChange::HostLimits(host, limits) => put_limits(&mut self.host_limits, host, limits),
            ModelChange::UserLimits(user, limits) => put_limits(&mut self.user_limits, user, limits),
            ModelChange::Exchange(host, name, state) => drop(self.exchanges.insert((host, name), state)),
            ModelChange::ExchangeRemoved(host, name) => drop(self.exchanges.remove(&(host, name))),
            ModelChange::Queue(number, state) => drop(self.queues.insert(number, state)),
            ModelChange::QueueRemoved(number) => drop(self.queues.remove(&number)),
            ModelChange::Binding(host, name, pattern) => drop(self.bindings.insert((host, name), pattern)),
            ModelChange::BindingRemoved(host, name) => drop(self.bindings.remove(&(host, name))),
            ModelChange::NumbersBelow(number) => self.numbers_below = self.numbers_below.max(number),
        }
    }

    /// Changes after which they are as `other`, in an order in which they can be made.
    pub fn changes_to(&self, other: &Self) -> Vec<ModelChange> {
        let of =
            |tables: &Self| tables.all_changes().map(|change| (change.subject(), change)).collect::<BTreeMap<_, _>>();
        let (known, wanted) = (of(self), of(other));
        let gone = known.iter().rev().filter(|(subject, _)| !wanted.contains_key(*subject));
        let gone: Vec<_> = gone.filter_map(|(subject, _)| subject.removal()).collect();
        let put = wanted.into_iter().filter(|(subject, change)| known.get(subject) != Some(change));
        gone.into_iter().chain(put.map(|(_, change)| change)).collect()
    }

    /// Changes that lead from nothing to these tables.
    pub fn all_changes(&self) -> impl Iterator<Item = ModelChange> {
        let numbers = (self.numbers_below > 0).then_some(ModelChange::NumbersBelow(self.numbers_below));
        let hosts = self.hosts.iter().map(|(name, settings)| ModelChange::Host(name.clone(), settings.clone()));
        let users = self.users.iter().map(|(name, settings)| ModelChange::User(name.clone(), settings.clone()));
        let permissions = self
            .permissions
            .iter()
            .map(|((host, user), settings)| ModelChange::Permission(host.clone(), user.clone(), settings.clone()));
        let host_limits = self.host_limits.iter();
        let host_limits = host_limits.map(|(host, limits)| ModelChange::HostLimits(host.clone(), *limits));
        let user_limits = self.user_limits.iter();
        let user_limits = user_limits.map(|(user, limits)| ModelChange::UserLimits(user.clone(), *limits));
        let topic_permissions = self.topic_permissions.iter().map(|((host, user, exchange), settings)| {
            ModelChange::TopicPermission(host.clone(), user.clone(), exchange.clone(), settings.clone())
        });
        let exchanges = self.exchanges.iter();
        let exchanges =
            exchanges.map(|((host, name), state)| ModelChange::Exchange(host.clone(), name.clone(), state.clone()));
        let queues = self.queues.iter().map(|(number, state)| ModelChange::Queue(*number, state.clone()));
        let bindings = self.bindings.iter();
        let bindings =
            bindings.map(|((host, name), pattern)| ModelChange::Binding(host.clone(), name.clone(), pattern.clone()));
        let hosts = numbers.into_iter().chain(hosts).chain(host_limits);
        let users = users.chain(user_limits).chain(permissions).chain(topic_permissions);
        hosts.chain(users).chain(exchanges).chain(queues).chain(bindings)
    }
}

/// Limits that limit nothing are none.
fn put_limits<L: Default + PartialEq>(all: &mut BTreeMap<String, L>, name: String, limits: L) {
    if limits == L::default() {
        all.remove(&name);
    } else {
        all.insert(name, limits);
    }
}
