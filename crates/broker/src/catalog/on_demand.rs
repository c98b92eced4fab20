//! Topics and groups that are made when they are first used: on the first send, for retries and dead letters, for parked messages.

use std::sync::Arc;

use base::{GroupName, Now, Permission, Refusal, TopicName};
use format::document::{GroupDocument, TopicDocument};
use format::index_rules::DELAY_TOPIC;
use storage::StorageError;

use super::{Catalog, Known, Topic};
use crate::error::refusal_of;

impl Catalog {
    /// Name servers have to hear of this broker anew, and nobody waits for it.
    pub fn announce_soon(&self) {
        self.host.registration_changed();
    }

    /// An administrator made or changed topics: waits until clients that ask a name server find them as they are now.
    pub fn announce(&self) {
        self.host.registration_changed();
        self.host.wait_until_announced();
    }

    /// The topic to publish to, made on the fly if that is allowed: `template` names the topic whose settings it
    /// takes, `queues` how many the producer wants at most.
    pub fn topic_for_publish(&self, name: &str, template: &str, queues: u32, now: Now) -> Result<Arc<Topic>, Refusal> {
        if self.is_write_protected(name) {
            return Err(Refusal::ReservedTopic(name.to_owned()));
        }
        if let Some(topic) = self.topic(name) {
            return Ok(topic);
        }
        self.check_is_leader()?;
        let checked = TopicName::checked(name)?;
        if let Some(group) = checked.retried_group() {
            let group = base::GroupName::checked(group)?;
            let settings = self.group_for_use(&group, now)?;
            return self.make_internal_topic(checked, settings.retry_queue_nums.max(1), now);
        }
        if template == self.options.system_topics.template && !self.running.auto_create_topics() {
            return Err(Refusal::NoSuchTopic(name.to_owned()));
        }
        let template = self.template(template, name, now)?;
        if !template.permission().inherit {
            return Err(Refusal::NotPermitted(format!(
                "no topic takes its settings from [{}], whose permission does not say inherit; create [{name}] first",
                template.name
            )));
        }
        let queues = queues.min(template.settings.write_queue_nums).max(1);
        let settings = TopicDocument {
            topic_sys_flag: template.settings.topic_sys_flag,
            ..TopicDocument::plain(queues, Permission { inherit: false, ..template.permission() })
        };
        tracing::info!(topic = name, queues, "topic created on first send");
        self.make_topic(checked, settings, now)
    }

    /// Messages are stored, and topics made for them, at a master.
    pub(crate) fn check_is_leader(&self) -> Result<(), Refusal> {
        if self.state.store().follows() { Err(refusal_of(StorageError::Follows)) } else { Ok(()) }
    }

    fn make_topic(&self, name: TopicName, settings: TopicDocument, now: Now) -> Result<Arc<Topic>, Refusal> {
        let made = self.take_in_topics(vec![(name, settings)], Known::Keep, now)?;
        self.announce_soon();
        made.into_iter().next().ok_or_else(|| Refusal::Internal("no topic was made".to_owned()))
    }

    /// A topic the broker needs for itself: retries, dead letters.
    pub(crate) fn make_internal_topic(&self, name: TopicName, queues: u32, now: Now) -> Result<Arc<Topic>, Refusal> {
        let settings = TopicDocument::plain(queues, Permission::OPEN);
        name.check_size()?;
        self.make_topic(name, settings, now)
    }

    /// The settings of a group, made on the fly if that is allowed.
    pub fn group_for_use(&self, group: &GroupName, now: Now) -> Result<Arc<GroupDocument>, Refusal> {
        if let Some(known) = self.group(group.as_str()) {
            return Ok(known);
        }
        if !self.running.auto_create_groups() {
            return Err(Refusal::NoSuchGroup(group.as_str().to_owned()));
        }
        self.check_room_for_groups(1)?;
        self.take_in_groups(vec![(group.clone(), GroupDocument::default())], Known::Keep, now)?;
        self.group(group.as_str()).ok_or_else(|| Refusal::NoSuchGroup(group.as_str().to_owned()))
    }

    /// Makes those of a heartbeat's groups, and of their retry topics, that are not there yet, all at once: each by itself would copy the
    /// table of groups and that of topics. What cannot be made is refused to who asks for it.
    pub fn prepare_groups(&self, names: &[GroupName], now: Now) {
        let mut missing: Vec<_> = names.iter().filter(|name| self.group(name.as_str()).is_none()).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() && self.running.auto_create_groups() {
            if self.check_room_for_groups(missing.len()).is_err() {
                return;
            }
            let made = missing.into_iter().map(|name| (name, GroupDocument::default())).collect();
            if let Err(refusal) = self.take_in_groups(made, Known::Keep, now) {
                tracing::warn!(%refusal, "groups of a heartbeat cannot be made");
                return;
            }
        }
        let groups = names.iter().filter_map(|name| self.group(name.as_str()));
        let retry_topics = groups.filter_map(|group| self.missing_retry_topic(&group));
        let mut retry_topics: Vec<_> =
            retry_topics.filter(|(name, settings)| self.may_be_made(name, settings)).collect();
        retry_topics.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        retry_topics.dedup_by(|(one, _), (other, _)| one == other);
        if !retry_topics.is_empty() && self.take_in_topics(retry_topics, Known::Keep, now).is_ok() {
            self.announce_soon();
        }
    }

    /// A group's retry topic, if it keeps retries and does not have it yet. A group with too long a name consumes all the same; what it
    /// gives back is refused.
    fn missing_retry_topic(&self, group: &GroupDocument) -> Option<(TopicName, TopicDocument)> {
        let (name, queues) = (TopicName::retry_of(&group.group_name), group.retry_queue_nums);
        let is_missing = queues > 0 && name.check_size().is_ok() && self.topic(name.as_str()).is_none();
        let settings = TopicDocument { read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() };
        is_missing.then_some((name, settings))
    }

    /// The topic that holds a group's retries.
    pub(crate) fn ensure_retry_topic(&self, group: &GroupDocument, now: Now) -> Result<(), Refusal> {
        if let Some((name, _)) = self.missing_retry_topic(group) {
            self.make_internal_topic(name, group.retry_queue_nums, now)?;
        }
        Ok(())
    }

    /// The topic of a group's dead letters, made with the first.
    pub fn dead_letter_topic(&self, group: &str, now: Now) -> Result<Arc<Topic>, Refusal> {
        let name = TopicName::dead_letters_of(group);
        name.check_size()?;
        match self.topic(name.as_str()) {
            Some(topic) => Ok(topic),
            None => self.make_internal_topic(name, 1, now),
        }
    }

    /// The topic of parked messages.
    pub(crate) fn delay_topic(&self, now: Now) -> Result<Arc<Topic>, Refusal> {
        let levels = self.state.store().index_rules().delay_levels_ms().len() as u32;
        match self.topic(DELAY_TOPIC) {
            Some(topic) if topic.queues.len() as u32 >= levels => Ok(topic),
            _ => {
                let settings =
                    TopicDocument { read_queue_nums: levels, write_queue_nums: levels, ..TopicDocument::default() };
                self.put_topic(TopicName::trusted(DELAY_TOPIC), settings, now)
            }
        }
    }
}
