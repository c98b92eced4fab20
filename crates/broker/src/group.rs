//! Who is connected: members of consumer groups with what they subscribe to, and clients of producer groups.
//!
//! Consumers share out queues among themselves; the broker lists them and tells all when the list changes. A member goes
//! when its connection closes, when it says so, or when its heartbeats stop.

pub(crate) mod description;
pub(crate) mod lock;
pub(crate) mod mailbox;
pub(crate) mod member;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::{GROUP_MEMBERS_MAX, GROUPS_MAX, SUBSCRIPTIONS_PER_GROUP_MAX};
use base::{GroupName, Now, Refusal};
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::filter::Filter;
use crate::group::description::Description;
use crate::group::lock::Locks;
use crate::group::mailbox::{Mailbox, Signal};
use crate::group::member::{
    Member, Members, Seated, check_client_id, in_too_many, is_full, join, members_of, see_again,
};

/// What a consumer wants of a topic. The texts are kept as they came, for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Topic.
    pub topic: String,
    /// Expression as the client wrote it.
    pub expression: String,
    /// Kind of expression: `TAG`.
    pub expression_type: String,
    /// Tags named.
    pub tags: Vec<String>,
    /// Their codes.
    pub codes: Vec<i64>,
    /// Grows with each change at the client.
    pub version: i64,
    /// What it lets through.
    pub filter: Filter,
}

/// What a consumer's heartbeat says of one group.
#[derive(Clone, Debug)]
pub struct ConsumerRegistration {
    /// Group.
    pub group: GroupName,
    /// What else there is to say of the group.
    pub description: Description,
    /// What it wants.
    pub subscriptions: Vec<Subscription>,
    /// Whether the heartbeat left the subscriptions out since they have not changed.
    pub keeps_subscriptions: bool,
}

/// One consumer group with members.
#[derive(Debug, Default)]
struct ConsumerGroup {
    members: Members,
    description: Description,
    subscriptions: BTreeMap<String, Arc<Subscription>>,
    /// Of the description and the subscriptions.
    version: u64,
}

/// What a heartbeat changes of what its group wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subscribed {
    Same,
    /// It has newer versions of the same.
    Newer,
    Changed,
}

/// What is connected.
#[derive(Debug)]
pub struct Groups {
    catalog: Arc<Catalog>,
    locks: Arc<Locks>,
    /// A client without a heartbeat for this long is gone, ms.
    expiry_ms: u64,
    consumers: Mutex<HashMap<GroupName, ConsumerGroup>>,
    producers: Mutex<HashMap<GroupName, Members>>,
    /// Counts changes of what consumers want.
    version: AtomicU64,
}

/// A group's state for administrators.
#[derive(Clone, Debug)]
pub struct GroupSnapshot {
    /// Members, by client id.
    pub members: Vec<Member>,
    /// What the last heartbeat of one of them said of the group besides.
    pub description: Description,
    /// What they want.
    pub subscriptions: Vec<Arc<Subscription>>,
}

impl Groups {
    pub(crate) fn new(catalog: Arc<Catalog>, locks: Arc<Locks>, expiry_ms: u64) -> Self {
        let version = AtomicU64::new(0);
        Self { catalog, locks, expiry_ms, consumers: Mutex::default(), producers: Mutex::default(), version }
    }

    /// Changes whenever something that a group wants does: who keeps a subscription looks whether it is still the one.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Called with the consumers locked.
    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Registers a consumer and makes its group and retry topic if need be. Gives the version of what the group wants now; `None` if a
    /// later heartbeat has more to do.
    pub fn register_consumer(
        &self,
        member: &Member,
        registration: ConsumerRegistration,
        now: Now,
    ) -> Result<Option<u64>, Refusal> {
        check_client_id(member)?;
        if registration.subscriptions.len() > SUBSCRIPTIONS_PER_GROUP_MAX {
            return Err(Refusal::BadRequest(format!(
                "group [{}] subscribes to {} topics; at most {SUBSCRIPTIONS_PER_GROUP_MAX} are possible",
                registration.group,
                registration.subscriptions.len()
            )));
        }
        let settings = self.catalog.group_for_use(&registration.group, now)?;
        let is_complete = match self.catalog.ensure_retry_topic(&settings, now) {
            // Who only reads is served by a full or failed disk too, and while the topic is being removed: a later heartbeat makes it.
            Err(Refusal::Unavailable(_) | Refusal::Busy(_)) => false,
            made => made.map(|()| true)?,
        };
        let mut consumers = self.consumers.lock();
        if member.mailbox.is_closed() {
            // Its connection went while its heartbeat was read: nobody would take it out again.
            return Ok(None);
        }
        let known = consumers.get(&registration.group);
        if known.is_some_and(|group| is_full(&group.members, member)) {
            return Err(Refusal::Busy(format!("group [{}] has {GROUP_MEMBERS_MAX} members", registration.group)));
        }
        let group = consumers.entry(registration.group.clone()).or_default();
        let wanted_size: usize = registration.subscriptions.iter().map(Subscription::size).sum();
        let wanted_size = (!registration.keeps_subscriptions).then_some(wanted_size);
        let joined = join(&mut group.members, member, wanted_size);
        let Some(is_new) = joined else {
            if group.members.is_empty() {
                consumers.remove(&registration.group);
            }
            return Err(in_too_many());
        };
        let wanted = (!registration.keeps_subscriptions).then_some(registration.subscriptions);
        let subscribed = wanted.map_or(Subscribed::Same, |wanted| group.subscribe(wanted));
        if subscribed != Subscribed::Same || group.description != registration.description {
            group.description = registration.description;
            group.version = self.next_version();
        }
        if (is_new || subscribed == Subscribed::Changed) && settings.notifies_members() {
            group.notify(&registration.group);
        }
        Ok(is_complete.then_some(group.version))
    }

    /// A client's heartbeat says the same as its last, when the groups that it consumes as had these versions: it is seen again. `false` if
    /// something is not as it was, and the heartbeat has to be taken as the first.
    pub fn refresh(
        &self,
        client: (&str, &Arc<Mailbox>),
        consumers: &[(GroupName, u64)],
        producers: &[GroupName],
        now: Now,
    ) -> bool {
        {
            let mut known = self.consumers.lock();
            let is_known = consumers.iter().all(|(name, version)| {
                let group = known.get_mut(name).filter(|group| group.version == *version);
                group.is_some_and(|group| see_again(&mut group.members, client, now))
            });
            if !is_known {
                return false;
            }
        }
        let mut known = self.producers.lock();
        producers.iter().all(|name| known.get_mut(name).is_some_and(|members| see_again(members, client, now)))
    }

    /// Registers a client that sends.
    pub fn register_producer(&self, group: &GroupName, member: &Member) -> Result<(), Refusal> {
        check_client_id(member)?;
        let mut producers = self.producers.lock();
        if member.mailbox.is_closed() {
            return Ok(());
        }
        if producers.get(group).is_some_and(|members| is_full(members, member)) {
            return Err(Refusal::Busy(format!("producer group [{group}] has {GROUP_MEMBERS_MAX} members")));
        }
        if producers.len() >= GROUPS_MAX && !producers.contains_key(group) {
            return Err(Refusal::Busy(format!("{GROUPS_MAX} producer groups have members: no more are taken")));
        }
        let members = producers.entry(group.clone()).or_default();
        if join(members, member, Some(0)).is_some() {
            return Ok(());
        }
        if members.is_empty() {
            producers.remove(group);
        }
        Err(in_too_many())
    }

    /// Tells the log, once a connection, that a heartbeat named groups that were not registered.
    pub fn note_left_out(&self, member: &Member, reason: &str) {
        if member.mailbox.tell_first_time() {
            tracing::warn!(client = member.client_id, address = %member.address, reason, "a heartbeat is taken in part only");
        }
    }

    /// A client leaves a consumer group, if it is there by this connection: one that has come back by another under the same
    /// id stays, and keeps its locks.
    pub fn unregister_consumer(&self, group: &str, client_id: &str, mailbox: &Arc<Mailbox>) {
        let mut consumers = self.consumers.lock();
        let Some((name, known)) = consumers.get_key_value(group) else { return };
        if known.members.get(client_id).is_none_or(|known| !known.seat.is_of(mailbox)) {
            return;
        }
        let name = name.clone();
        if let Some(known) = consumers.get_mut(&name) {
            known.members.remove(client_id);
            if known.members.is_empty() {
                consumers.remove(&name);
                self.next_version();
            } else if self.notifies(&name) {
                known.notify(&name);
            }
        }
        drop(consumers);
        self.locks.release_all_of(group, client_id);
    }

    /// A client leaves a producer group, if it is there by this connection.
    pub fn unregister_producer(&self, group: &str, client_id: &str, mailbox: &Arc<Mailbox>) {
        let mut producers = self.producers.lock();
        let Some(members) = producers.get_mut(group) else { return };
        if members.get(client_id).is_some_and(|known| known.seat.is_of(mailbox)) {
            members.remove(client_id);
            if members.is_empty() {
                producers.remove(group);
            }
        }
    }

    /// A connection is gone, and with it all its memberships.
    pub fn connection_closed(&self, mailbox: &Arc<Mailbox>) {
        drop(mailbox.close());
        self.remove_consumers(|member| Arc::ptr_eq(&member.mailbox, mailbox));
        self.remove_producers(|member| Arc::ptr_eq(&member.mailbox, mailbox));
    }

    /// Removes members whose heartbeats stopped.
    pub fn expire(&self, now: Now) {
        let is_expired = |member: &Member| now.monotonic.ms_since(member.seen.monotonic) > self.expiry_ms;
        self.remove_consumers(is_expired);
        self.remove_producers(is_expired);
    }

    fn remove_consumers(&self, is_gone: impl Fn(&Member) -> bool) {
        self.consumers.lock().retain(|name, group| {
            if group.remove(&is_gone) && self.notifies(name) {
                group.notify(name);
            }
            if group.members.is_empty() {
                self.next_version();
            }
            !group.members.is_empty()
        });
    }

    fn notifies(&self, group: &GroupName) -> bool {
        self.catalog.group(group.as_str()).is_none_or(|group| group.notifies_members())
    }

    fn remove_producers(&self, is_gone: impl Fn(&Member) -> bool) {
        self.producers.lock().retain(|_, members| {
            members.retain(|_, seated| !is_gone(&seated.member));
            !members.is_empty()
        });
    }

    /// Ids of a group's members.
    pub fn member_ids(&self, group: &str) -> Option<Vec<String>> {
        self.consumers.lock().get(group).map(|group| group.members.keys().cloned().collect())
    }

    /// A member of a group.
    pub fn member(&self, group: &str, client_id: &str) -> Option<Member> {
        let consumers = self.consumers.lock();
        consumers.get(group)?.members.get(client_id).map(|seated| seated.member.clone())
    }

    /// Whether the group has members.
    pub fn is_online(&self, group: &str) -> bool {
        self.consumers.lock().contains_key(group)
    }

    /// What a group wants of a topic.
    pub fn subscription(&self, group: &str, topic: &str) -> Result<Arc<Subscription>, Refusal> {
        let consumers = self.consumers.lock();
        consumers
            .get(group)
            .and_then(|group| group.subscriptions.get(topic))
            .cloned()
            .ok_or_else(|| Refusal::NoSubscription { group: group.to_owned(), topic: topic.to_owned() })
    }

    /// A consumer group as it is connected now.
    pub fn snapshot(&self, group: &str) -> Option<GroupSnapshot> {
        let consumers = self.consumers.lock();
        let group = consumers.get(group)?;
        Some(GroupSnapshot {
            members: members_of(&group.members),
            description: group.description.clone(),
            subscriptions: group.subscriptions.values().cloned().collect(),
        })
    }

    /// Groups with members that subscribe to a topic.
    pub fn subscribed_to(&self, topic: &str) -> Vec<String> {
        let consumers = self.consumers.lock();
        let mut groups: Vec<_> = consumers
            .iter()
            .filter(|(_, group)| group.subscriptions.contains_key(topic))
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        groups.sort_unstable();
        groups
    }

    /// Clients of a producer group.
    pub fn producers_of(&self, group: &str) -> Vec<Member> {
        let producers = self.producers.lock();
        producers.get(group).map(members_of).unwrap_or_default()
    }

    /// Every producer group with its clients.
    pub fn all_producers(&self) -> Vec<(GroupName, Vec<Member>)> {
        let producers = self.producers.lock();
        producers.iter().map(|(name, members)| (name.clone(), members_of(members))).collect()
    }
}

impl Subscription {
    /// Bytes it takes, roughly.
    fn size(&self) -> usize {
        let texts = self.topic.len() * 2 + self.expression.len() + self.expression_type.len();
        let tags: usize = self.tags.iter().map(|tag| tag.len() + size_of::<String>()).sum();
        size_of::<Self>() + texts + tags + 2 * size_of_val(&*self.codes)
    }
}

impl ConsumerGroup {
    /// Returns whether anybody went.
    fn remove(&mut self, is_gone: impl Fn(&Member) -> bool) -> bool {
        let before = self.members.len();
        self.members.retain(|_, seated| !is_gone(&seated.member));
        self.members.len() < before
    }

    /// Takes newer subscriptions, drops those no longer wanted.
    fn subscribe(&mut self, wanted: Vec<Subscription>) -> Subscribed {
        let before = self.subscriptions.len();
        {
            let topics: HashSet<_> = wanted.iter().map(|subscription| &*subscription.topic).collect();
            self.subscriptions.retain(|topic, _| topics.contains(&**topic));
        }
        let mut is_changed = self.subscriptions.len() != before;
        let mut is_newer = false;
        for subscription in wanted {
            match self.subscriptions.get(&subscription.topic) {
                Some(known) if known.version >= subscription.version => {}
                known => {
                    // A newer version alone is no change of what is wanted.
                    is_changed |= known.is_none_or(|known| known.expression != subscription.expression);
                    is_newer = true;
                    self.subscriptions.insert(subscription.topic.clone(), Arc::new(subscription));
                }
            }
        }
        match (is_changed, is_newer) {
            (true, _) => Subscribed::Changed,
            (false, true) => Subscribed::Newer,
            (false, false) => Subscribed::Same,
        }
    }

    fn notify(&self, name: &GroupName) {
        for Seated { member, .. } in self.members.values() {
            member.mailbox.send(Signal::GroupChanged(name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_subscription_is_taken_to_need_is_about_what_it_needs() {
        let long = "x".repeat(100);
        let wanted = Subscription {
            topic: long.clone(),
            expression: long.repeat(50),
            expression_type: "TAG".to_owned(),
            tags: vec![long; 50],
            codes: vec![7; 50],
            version: 1,
            filter: Filter::All,
        };
        // Fifty tags by themselves and once more in the expression, and their codes here and in the filter.
        let needed = 50 * (100 + 100 + size_of::<String>() + 8 + 8);
        assert!((needed..needed + 1000).contains(&wanted.size()), "{} bytes", wanted.size());
    }
}
