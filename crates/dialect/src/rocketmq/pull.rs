//! One pull: what its request asks for, looked up when it comes and again when it goes on.

use std::borrow::Cow;
use std::sync::Arc;

use base::offset::Watermark;
use base::{GroupName, Monotonic, QueueId, Refusal, TopicName};
use broker::{Broker, Fetch, Fetched, FetchedOffsets, Filter, RawOffset, Topic};
use format::record;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{PullRequest, pull_flag};

use super::answer::{Asked, header};
use super::connection::Connection;
use super::context::Context;
use super::description::GroupDescription;
use super::queue::queue_of;
use super::readings::{Reading, Readings};
use super::subscription::check_expression_type;

/// Longest wait a client may ask for: its own limit for an answer is 30 s, idle connections are closed after 120 s.
const WAIT_MS_MAX: u64 = 60_000;

/// The master of a broker's group.
pub(super) const MASTER_ID: i64 = 0;

/// A pull, as far as it has come. It keeps nothing of the broker's tables: what it names may go or change while it waits.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    pub(super) asked: Asked,
    topic: TopicName,
    group: GroupName,
    pub(super) queue: QueueId,
    /// What it has come to.
    pub(super) offset: RawOffset,
    /// Offset it began at: what lies between was looked at and did not match.
    pub(super) began_at: RawOffset,
    count_max: usize,
    pub(super) size_max: usize,
    filter: Filter,
    /// Which brokers of the group it may be sent to, where consumers read from slaves too.
    brokers: Option<ReadFrom>,
    /// Where the filter is from, if not from the request.
    subscribed: Option<Subscribed>,
    /// Until when it may wait; `None` if it may not.
    pub(super) wait_until: Option<Monotonic>,
    /// Whether it has waited for messages.
    pub(super) has_waited: bool,
}

/// The brokers that a consumer group reads from.
#[derive(Clone, Copy, Debug)]
struct ReadFrom {
    usually: i64,
    /// While it is so far behind that what it reads is old.
    if_slow: i64,
}

/// A filter from the group's heartbeat.
#[derive(Clone, Copy, Debug)]
struct Subscribed {
    /// The oldest version of the subscription that will do.
    version_min: i64,
    /// The version of all groups' wants when the filter was taken.
    wants: u64,
}

/// What a pull reads from, for one look at it.
pub(super) struct Source {
    pub(super) topic: Arc<Topic>,
    /// Where it is noted how far the group has come.
    pub(super) fetched: Option<Arc<FetchedOffsets>>,
    /// The catalog's that all this is of.
    generation: u64,
}

impl Source {
    /// Whether the topic is another by now, or gone.
    pub(super) fn is_outdated(&self, broker: &Broker) -> bool {
        let is_the_one = |topic: Arc<Topic>| Arc::ptr_eq(&topic, &self.topic);
        broker.catalog.generation() != self.generation
            && !broker.catalog.topic(self.topic.name.as_str()).is_some_and(is_the_one)
    }
}

/// A pull that went to the disk.
pub(super) struct PullOutcome {
    pub(super) pull: Pull,
    pub(super) source: Source,
    /// When it went there.
    pub(super) since: Monotonic,
    pub(super) result: Result<Fetched, Refusal>,
}

impl Pull {
    /// Checks a request and takes what it commits.
    pub(super) fn of(
        command: &Command<'_>,
        asked: Asked,
        context: &Context<'_>,
        readings: &mut Readings,
    ) -> Result<(Self, Source), Refusal> {
        let request: PullRequest<'_> = header(command)?;
        let Context { broker, options, now, .. } = *context;
        let reading = readings.find(&request.topic, &request.consumer_group, broker)?;
        let group = check_group(reading, context)?;
        let brokers = if options.slave_reads { Some(read_from(reading, context)?) } else { None };
        let topic = reading.topic(broker)?;
        let queue = queue_of(&topic, request.queue_id)?;
        let (filter, subscribed) = filter_of(&request, reading, context)?;
        if request.system_flag & pull_flag::COMMIT_OFFSET != 0 {
            reading.commit(queue, request.commit_offset, broker)?;
        }
        let may_wait = request.system_flag & pull_flag::SUSPEND != 0 && request.suspend_timeout_ms > 0;
        let wait_ms = if options.long_polling {
            u64::try_from(request.suspend_timeout_ms).unwrap_or_default().min(WAIT_MS_MAX)
        } else {
            options.short_poll_ms
        };
        let size_max =
            request.max_message_bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|&bytes| bytes > 0);
        let count_max = usize::try_from(request.max_message_count).unwrap_or_default().max(1);
        let fetched = reading.fetched(&topic, &group, broker);
        let pull = Self {
            asked,
            topic: topic.name.clone(),
            group,
            queue,
            offset: request.queue_offset,
            began_at: request.queue_offset,
            count_max: count_max.min(options.fetch_count_max),
            size_max: size_max.unwrap_or(usize::MAX).min(options.fetch_size_max),
            filter,
            brokers,
            subscribed,
            wait_until: may_wait.then(|| now.monotonic.plus_ms(wait_ms)),
            has_waited: false,
        };
        Ok((pull, Source { topic, fetched, generation: reading.generation() }))
    }

    /// Checks anew what may have changed while it waited: as if it came now.
    pub(super) fn look_again(&mut self, context: &Context<'_>, readings: &mut Readings) -> Result<Source, Refusal> {
        let broker = context.broker;
        let reading = readings.find(self.topic.as_str(), self.group.as_str(), broker)?;
        check_group(reading, context)?;
        let topic = reading.topic(broker)?;
        queue_of(&topic, i32::try_from(self.queue.0).unwrap_or(i32::MAX))?;
        self.take_filter(reading, context)?;
        let fetched = reading.fetched(&topic, &self.group, broker);
        Ok(Source { topic, fetched, generation: reading.generation() })
    }

    /// Takes the filter that the group's heartbeat has registered by now, if another has come since. What did not match the one before
    /// is looked at again.
    fn take_filter(&mut self, reading: &mut Reading, context: &Context<'_>) -> Result<(), Refusal> {
        let Some(subscribed) = self.subscribed.filter(|known| known.wants != context.broker.groups.version()) else {
            return Ok(());
        };
        let (filter, subscribed) = subscribed_filter(subscribed.version_min, reading, context)?;
        self.subscribed = Some(subscribed);
        if filter != self.filter {
            (self.filter, self.offset) = (filter, self.began_at);
        }
        Ok(())
    }

    /// Whether another filter was registered since this one was taken.
    pub(super) fn is_outdated(&self, context: &Context<'_>, readings: &mut Readings) -> bool {
        let Some(known) = self.subscribed.filter(|known| known.wants != context.broker.groups.version()) else {
            return false;
        };
        let reading = readings.find(self.topic.as_str(), self.group.as_str(), context.broker);
        let now = reading.and_then(|reading| subscribed_filter(known.version_min, reading, context));
        now.map_or(true, |(filter, _)| filter != self.filter)
    }

    /// What it asks of a queue's messages.
    pub(super) fn fetch<'a>(&'a self, source: &'a Source) -> Fetch<'a> {
        Fetch {
            topic: &source.topic,
            queue: self.queue,
            offset: self.offset,
            count_max: self.count_max,
            size_max: self.size_max,
            filter: &self.filter,
        }
    }

    /// The reset that waits for who pulls, if there is one: it has heard of it by a pull that it makes now, which may begin there already.
    pub(super) fn reset(&self, broker: &Broker) -> Option<RawOffset> {
        let (topic, group) = (self.topic.as_str(), self.group.as_str());
        if self.has_waited {
            return broker.offsets.reset_of(topic, group, self.queue);
        }
        broker.offsets.take_reset(topic, group, self.queue).filter(|&offset| offset != self.began_at)
    }

    /// The broker that its consumer is to read from next (`suggestWhichBrokerId`): another only if it is far behind, and a replica is near.
    pub(super) fn suggested(&self, fetched: &Fetched, connection: &Connection) -> i64 {
        let Some(ReadFrom { usually, if_slow }) = self.brokers else { return MASTER_ID };
        let (broker, options) = (&connection.broker, &connection.options);
        let end = broker.durability.reached(Watermark::Written);
        let read = fetched.pieces.first().and_then(|piece| record::log_offset_of(piece));
        let is_slow = read.is_some_and(|read| end.0.saturating_sub(read.0) > options.slow_reader_gap);
        // A slave sends who keeps up back to its master.
        let has_slave = broker.follows() || broker.durability.replicas().are_in_reach(end);
        if is_slow && has_slave { if_slow } else { usually }
    }

    /// Bytes that its filter takes.
    pub(super) const fn filter_size(&self) -> usize {
        self.filter.size()
    }
}

/// The group of a pull, which has to be one that may consume.
fn check_group(reading: &mut Reading, context: &Context<'_>) -> Result<GroupName, Refusal> {
    let (group, settings) = reading.group(context.broker, context.now)?;
    if !settings.consume_enable {
        return Err(Refusal::NotPermitted(format!("subscription group no permission, {group}")));
    }
    Ok(group.clone())
}

/// The brokers that the group reads from.
fn read_from(reading: &mut Reading, context: &Context<'_>) -> Result<ReadFrom, Refusal> {
    let (_, settings) = reading.group(context.broker, context.now)?;
    Ok(ReadFrom { usually: settings.broker_id, if_slow: settings.which_broker_when_consume_slowly })
}

/// The filter in the request, or the one the group's heartbeat registered.
fn filter_of(
    request: &PullRequest<'_>,
    reading: &mut Reading,
    context: &Context<'_>,
) -> Result<(Filter, Option<Subscribed>), Refusal> {
    if request.system_flag & pull_flag::CLASS_FILTER != 0 {
        return Err(Refusal::NotSupported("Sluice does not filter by uploaded classes".to_owned()));
    }
    check_expression_type(request.expression_type.as_ref())?;
    if request.system_flag & pull_flag::SUBSCRIPTION != 0 {
        return Ok((Filter::parse(request.subscription.as_deref().unwrap_or_default())?, None));
    }
    let (filter, subscribed) = subscribed_filter(request.sub_version, reading, context)?;
    Ok((filter, Some(subscribed)))
}

/// The filter that the group's heartbeat registered, with a version of at least `version_min`.
fn subscribed_filter(
    version_min: i64,
    reading: &mut Reading,
    context: &Context<'_>,
) -> Result<(Filter, Subscribed), Refusal> {
    let broker = context.broker;
    // Before it is looked up: a change in between is seen with the next look.
    let subscribed = Subscribed { version_min, wants: broker.groups.version() };
    let (group, settings) = reading.group(broker, context.now)?;
    let (group, may_broadcast) = (group.clone(), settings.consume_broadcast_enable);
    let subscription = reading.subscription(version_min, broker)?;
    if !may_broadcast
        && broker.groups.snapshot(group.as_str()).is_some_and(|group| GroupDescription::is_broadcast(&group))
    {
        return Err(Refusal::NotPermitted(format!("the consumer group[{group}] can not consume by broadcast way")));
    }
    if subscription.version < version_min {
        return Err(Refusal::StaleSubscription { group: group.to_string() });
    }
    check_expression_type(Some(&Cow::Borrowed(&*subscription.expression_type)))?;
    Ok((subscription.filter.clone(), subscribed))
}
