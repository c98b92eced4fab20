//! One pull: what its request asks for.

use std::borrow::Cow;
use std::sync::Arc;

use base::{Monotonic, Refusal};
use broker::{Broker, Fetch, Fetched, FetchedOffsets, Filter};
use format::document::GroupDocument;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{PullRequest, pull_flag};

use super::answer::{Asked, header};
use super::context::Context;
use super::description::GroupDescription;
use super::queue::queue_of;
use super::readings::{Reading, Readings};
use super::subscription::check_expression_type;

/// Longest wait a client may ask for: its own limit for an answer is 30 s, idle connections are closed after 120 s.
const WAIT_MS_MAX: u64 = 60_000;

/// A pull, as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    pub(super) asked: Asked,
    pub(super) fetch: Fetch,
    /// Where it is noted how far it has come.
    pub(super) fetched: Option<Arc<FetchedOffsets>>,
    /// Offset it began at: what lies between was looked at and did not match.
    pub(super) began_at: i64,
    /// Until when it may wait; `None` if it may not.
    pub(super) wait_until: Option<Monotonic>,
    /// Whether it has waited for messages.
    pub(super) has_waited: bool,
}

/// A pull that went to the disk.
pub(super) struct PullOutcome {
    pub(super) pull: Pull,
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
    ) -> Result<Self, Refusal> {
        let request: PullRequest<'_> = header(command)?;
        let Context { broker, options, now, .. } = *context;
        let reading = readings.find(&request.topic, &request.consumer_group, broker)?;
        let (group, settings) = reading.group(broker, now)?;
        if !settings.consume_enable {
            return Err(Refusal::NotPermitted(format!("subscription group no permission, {group}")));
        }
        let topic = reading.topic(broker)?;
        let queue = queue_of(&topic, request.queue_id)?;
        let filter = filter_of(&request, &settings, reading, broker)?;
        if request.system_flag & pull_flag::COMMIT_OFFSET != 0 {
            reading.commit(queue, request.commit_offset, broker)?;
        }
        let fetched = reading.fetched(&topic, &group, broker);
        let may_wait = request.system_flag & pull_flag::SUSPEND != 0 && request.suspend_timeout_ms > 0;
        let wait_ms = if options.long_polling {
            u64::try_from(request.suspend_timeout_ms).unwrap_or_default().min(WAIT_MS_MAX)
        } else {
            options.short_poll_ms
        };
        let size_max =
            request.max_message_bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|&bytes| bytes > 0);
        let count_max = usize::try_from(request.max_message_count).unwrap_or_default().max(1);
        let fetch = Fetch {
            topic,
            queue,
            group,
            offset: request.queue_offset,
            count_max: count_max.min(options.fetch_count_max),
            size_max: size_max.unwrap_or(usize::MAX).min(options.fetch_size_max),
            filter,
        };
        let wait_until = may_wait.then(|| now.monotonic.plus_ms(wait_ms));
        Ok(Self { asked, began_at: fetch.offset, fetch, fetched, wait_until, has_waited: false })
    }
}

/// The filter in the request, or the one the group's heartbeat registered.
fn filter_of(
    request: &PullRequest<'_>,
    group: &GroupDocument,
    reading: &mut Reading,
    broker: &Broker,
) -> Result<Filter, Refusal> {
    if request.system_flag & pull_flag::CLASS_FILTER != 0 {
        return Err(Refusal::NotSupported("Sluice does not filter by uploaded classes".to_owned()));
    }
    check_expression_type(request.expression_type.as_ref())?;
    if request.system_flag & pull_flag::SUBSCRIPTION != 0 {
        return Filter::parse(request.subscription.as_deref().unwrap_or_default());
    }
    let subscription = reading.subscription(request.sub_version, broker)?;
    if !group.consume_broadcast_enable
        && broker.groups.snapshot(&group.group_name).is_some_and(|group| GroupDescription::is_broadcast(&group))
    {
        return Err(Refusal::NotPermitted(format!(
            "the consumer group[{}] can not consume by broadcast way",
            group.group_name
        )));
    }
    if subscription.version < request.sub_version {
        return Err(Refusal::StaleSubscription { group: request.consumer_group.to_string() });
    }
    check_expression_type(Some(&Cow::Borrowed(&*subscription.expression_type)))?;
    Ok(subscription.filter.clone())
}
