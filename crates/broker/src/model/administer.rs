//! Virtual hosts, users and permissions, as administrators have them made and removed.
//!
//! **Always holds**: a change is in the log before it counts; who is connected by what is removed is told to go.

use std::sync::Arc;

use base::{Now, Refusal};
use format::model::{
    HostLimits, ModelChange, PermissionSettings, TopicPermissionSettings, UserLimits, UserSettings, VirtualHostSettings,
};

use super::Model;
use super::access::{Permission, TopicPermission};
use super::change::changes_of;
use super::error::ModelError;
use super::message_queue::MessageQueue;
use super::virtual_host::VirtualHost;

/// Bytes of the name of a virtual host or a user: what a method of a connection can name.
const NAME_SIZE_MAX: usize = 255;

impl Model {
    /// Whether virtual hosts are used here at all.
    pub const fn is_used(&self) -> bool {
        self.options.first_host.is_some()
    }

    /// Makes a virtual host, with the exchanges that each has.
    pub fn make_host(&self, name: &str, settings: VirtualHostSettings, now: Now) -> Result<(), ModelError> {
        check_name("virtual host", name)?;
        let _changing = self.changing.lock();
        if self.host(name).is_ok() {
            return Err(ModelError::Exists { what: "virtual host", name: name.to_owned() });
        }
        self.change(ModelChange::Host(name.to_owned(), settings), now)
    }

    /// Removes a virtual host with all that is in it, and what users may do there. Who is connected to it has to go.
    pub fn remove_host(&self, name: &str, now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let host = self.host(name)?;
        let permissions = self.access.removals(|of, _| of == name);
        // What is inside goes first: a log that ends in between tells of a host with less in it.
        let made = changes_of(&host, |exchange| self.is_given(exchange));
        let removed = made.into_iter().rev().filter_map(|change| change.subject().removal());
        self.propose(permissions.iter().cloned().chain(removed).collect(), now)?;
        self.hosts.write().remove(name);
        permissions.iter().try_for_each(|change| self.access.take_in(change))?;
        for queue in host.empty() {
            self.forget_queue(&queue);
        }
        self.connections.dismiss(|connected| *connected.host == *name, &format!("vhost '{name}' is deleted"));
        Ok(())
    }

    /// A queue is in no virtual host any more: its consumers hear of it, and its files go.
    pub(super) fn forget_queue(&self, queue: &Arc<MessageQueue>) {
        queue.note_gone();
        if let Some(owner) = queue.wish().owner {
            let mut owned = self.owned.lock();
            let queues = owned.entry(owner).or_default();
            queues.retain(|known| !Arc::ptr_eq(known, queue));
            if queues.is_empty() {
                owned.remove(&owner);
            }
        }
        self.leaving.lock().push(queue.number());
    }

    /// Makes a user.
    pub fn make_user(&self, name: &str, settings: UserSettings, now: Now) -> Result<(), ModelError> {
        check_name("user", name)?;
        let _changing = self.changing.lock();
        if self.access.user(name).is_some() {
            return Err(ModelError::Exists { what: "user", name: name.to_owned() });
        }
        self.change(ModelChange::User(name.to_owned(), settings), now)
    }

    /// Changes a user's settings.
    pub fn change_user(&self, name: &str, change: impl FnOnce(&mut UserSettings), now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let mut settings = self.access.user(name).ok_or_else(|| ModelError::NoSuchUser(name.to_owned()))?;
        change(&mut settings);
        self.change(ModelChange::User(name.to_owned(), settings), now)
    }

    /// Removes a user with all that it may do. Who is connected as that user has to go.
    pub fn remove_user(&self, name: &str, now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        self.check_user(name)?;
        let mut changes = self.access.removals(|_, of| of == name);
        // Who comes by the same name later has limits of its own.
        changes.push(ModelChange::UserLimits(name.to_owned(), UserLimits::default()));
        changes.push(ModelChange::UserRemoved(name.to_owned()));
        self.propose(changes.clone(), now)?;
        changes.iter().try_for_each(|change| self.access.take_in(change))?;
        self.connections.dismiss(|connected| *connected.user == *name, &format!("user '{name}' is deleted"));
        Ok(())
    }

    /// Says what a user may do in a virtual host, instead of what was said before.
    pub fn permit(&self, host: &str, user: &str, settings: PermissionSettings, now: Now) -> Result<(), ModelError> {
        // A pattern that is none has to be refused before the log has it.
        Permission::of(settings.clone())?;
        let _changing = self.changing.lock();
        self.host(host)?;
        self.check_user(user)?;
        self.change(ModelChange::Permission(host.to_owned(), user.to_owned(), settings), now)
    }

    /// A user may do nothing in a virtual host any more.
    pub fn forbid(&self, host: &str, user: &str, now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let (host, user) = (host.to_owned(), user.to_owned());
        if self.access.permission(&host, &user).is_none() {
            return Err(ModelError::NoSuchPermission { host, user });
        }
        self.change(ModelChange::PermissionRemoved(host, user), now)
    }

    /// Says what a user may do with messages of a topic exchange, instead of what was said before. The exchange need not be there yet.
    pub fn permit_topic(
        &self,
        (host, user, exchange): (&str, &str, &[u8]),
        settings: TopicPermissionSettings,
        now: Now,
    ) -> Result<(), ModelError> {
        // As above.
        TopicPermission::of(settings.clone(), host, user)?;
        let _changing = self.changing.lock();
        self.host(host)?;
        self.check_user(user)?;
        self.change(ModelChange::TopicPermission(host.to_owned(), user.to_owned(), exchange.into(), settings), now)
    }

    /// A user may use all keys of an exchange again.
    pub fn forget_topic(&self, (host, user, exchange): (&str, &str, &[u8]), now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let of_user = self.access.topic_permissions_of(host, user);
        if !of_user.is_some_and(|of_user| of_user.contains_key(exchange)) {
            let (host, user) = (host.to_owned(), user.to_owned());
            return Err(ModelError::NoSuchTopicPermission { host, user, exchange: exchange.into() });
        }
        self.change(ModelChange::TopicPermissionRemoved(host.to_owned(), user.to_owned(), exchange.into()), now)
    }

    /// Limits what may be in a virtual host from now on: what is there stays.
    pub fn limit_host(&self, name: &str, limits: HostLimits, now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        self.host(name)?;
        self.change(ModelChange::HostLimits(name.to_owned(), limits), now)
    }

    /// Limits what a user may have from now on: what it has it keeps.
    pub fn limit_user(&self, name: &str, limits: UserLimits, now: Now) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        self.check_user(name)?;
        self.change(ModelChange::UserLimits(name.to_owned(), limits), now)
    }

    fn check_user(&self, name: &str) -> Result<(), ModelError> {
        if self.access.user(name).is_some() { Ok(()) } else { Err(ModelError::NoSuchUser(name.to_owned())) }
    }

    fn change(&self, change: ModelChange, now: Now) -> Result<(), ModelError> {
        self.propose(vec![change.clone()], now)?;
        self.take_in(change, now)?;
        Ok(())
    }

    /// Whether every virtual host has that exchange.
    pub(super) fn is_given(&self, exchange: &[u8]) -> bool {
        self.options.exchanges.iter().any(|(given, ..)| **given == *exchange)
    }
}

impl VirtualHost {
    /// It is gone, and what was in it: gives the queues that were.
    fn empty(&self) -> Vec<Arc<MessageQueue>> {
        let mut table = self.table.write();
        self.note_gone();
        let table = std::mem::take(&mut *table);
        self.note_change();
        table.by_number.into_values().collect()
    }
}

fn check_name(what: &str, name: &str) -> Result<(), ModelError> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > NAME_SIZE_MAX {
        "has more than 255 bytes"
    } else if name.chars().any(char::is_control) {
        "has characters that nobody can see"
    } else {
        return Ok(());
    };
    Err(Refusal::BadRequest(format!("the name of the {what} {problem}")).into())
}
