//! Which queues members of a group consume, for consumers that leave that to the broker; and how they ask for messages.

use std::cmp::Ordering;

use base::name::RETRY_PREFIX;
use base::{GroupName, Refusal, TopicName};
use broker::{QueuesAt, Whereabouts};
use format::request_mode::{RequestMode, RequestModeDocument};
use wire::rocketmq::body::assignment::{AssignmentQuery, Assignments, QueueAssignment};
use wire::rocketmq::body::client::MessageQueue;
use wire::rocketmq::frame::Command;

use super::allocation::{Allocated, Strategy, allocate};
use super::answer::{Answer, Answered};
use super::consumer::decode_list;
use super::context::Context;
use super::slave::table;

fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal(error.to_string())
}

pub(super) fn query(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let query: AssignmentQuery = decode_list("assignment query", command)?;
    let settings = mode_for(context, &query);
    let queues = match &*query.message_model {
        "BROADCASTING" => Spread::of(context, &query.topic)?.map(|spread| spread.all()),
        "CLUSTERING" => queues_of_member(context, &query, &settings)?,
        model => return Err(Refusal::BadRequest(format!("[{model}] is neither CLUSTERING nor BROADCASTING"))),
    };
    let mode = settings.mode;
    let assigned = |message_queue| QueueAssignment { message_queue, mode };
    let message_queue_assignments = queues.map(|queues| queues.into_iter().map(assigned).collect());
    Ok(Answer::body(serde_json::to_vec(&Assignments { message_queue_assignments }).map_err(internal)?))
}

/// How the group asks for messages of the topic: as was said, or as the broker is set. Retries are always pulled.
fn mode_for(context: &Context<'_>, query: &AssignmentQuery) -> RequestModeDocument {
    let said = context.broker.request_modes.of(&query.topic, &query.consumer_group);
    said.unwrap_or_else(|| match context.options.request_mode {
        RequestMode::Pop if !query.topic.starts_with(RETRY_PREFIX) => RequestModeDocument {
            mode: RequestMode::Pop,
            pop_share_queue_num: context.options.shared_queues,
            ..RequestModeDocument::default()
        },
        _ => RequestModeDocument::default(),
    })
}

/// The queues of a member; `None` where nothing can be said, and it keeps those it has.
fn queues_of_member(
    context: &Context<'_>,
    query: &AssignmentQuery,
    settings: &RequestModeDocument,
) -> Result<Option<Vec<MessageQueue>>, Refusal> {
    let Some(spread) = Spread::of(context, &query.topic)? else { return Ok(None) };
    if !context.options.assigns_queues {
        return Ok(Some(spread.all()));
    }
    let (Some(mut members), Some(strategy)) =
        (context.broker.groups.member_ids(&query.consumer_group), Strategy::named(&query.strategy_name))
    else {
        return Ok(None);
    };
    members.sort_by(|one, other| utf16_order(one, other));
    let member = members.iter().position(|id| *id == query.client_id);
    let asking = (settings.mode, settings.pop_share_queue_num);
    let allocated = allocate(strategy, asking, member, members.len(), spread.count());
    Ok(allocated.map(|allocated| match allocated {
        Allocated::Queues(numbers) => spread.queues(&numbers),
        Allocated::AnyOfEachBroker => spread.any_of_each(),
    }))
}

/// The order of Java's texts, so that brokers of both kinds agree.
fn utf16_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

/// Number of a queue that stands for any of its broker.
const ANY_QUEUE: i32 = -1;

/// The queues of a topic that consumers may read, in the order in which every broker counts them.
struct Spread<'a> {
    topic: &'a str,
    brokers: Vec<QueuesAt>,
}

impl<'a> Spread<'a> {
    /// The queues of a topic in the whole cluster; `None`: nothing is known of it.
    fn of(context: &Context<'_>, topic: &'a str) -> Result<Option<Self>, Refusal> {
        let Ok(name) = TopicName::checked(topic) else { return Ok(None) };
        let own = |count| vec![QueuesAt { broker: context.broker.options().broker_name.clone(), count }];
        if name.is_light() {
            return Ok(Some(Self { topic, brokers: own(1) }));
        }
        let mut brokers = match context.broker.routes.of(topic, context.now.monotonic)? {
            Whereabouts::Unknown => return Ok(None),
            Whereabouts::At(brokers) => brokers.to_vec(),
            Whereabouts::Here => match context.broker.catalog.topic(topic) {
                None => return Ok(None),
                Some(known) => {
                    let is_readable = known.permission().read && context.broker.options().permission.read;
                    own(if is_readable { known.settings.read_queue_nums } else { 0 })
                }
            },
        };
        brokers.sort_by(|one, other| utf16_order(&one.broker, &other.broker).then(other.count.cmp(&one.count)));
        brokers.dedup_by(|one, other| one.broker == other.broker);
        Ok(Some(Self { topic, brokers }))
    }

    fn count(&self) -> usize {
        self.brokers.iter().map(|at| at.count as usize).sum()
    }

    fn queue(&self, broker: &str, queue_id: i32) -> MessageQueue {
        MessageQueue { broker_name: broker.to_owned(), queue_id, topic: self.topic.to_owned() }
    }

    fn queues_at(&self, at: &'a QueuesAt) -> impl Iterator<Item = MessageQueue> {
        (0..at.count).filter_map(|number| Some(self.queue(&at.broker, i32::try_from(number).ok()?)))
    }

    fn all(&self) -> Vec<MessageQueue> {
        self.brokers.iter().flat_map(|at| self.queues_at(at)).collect()
    }

    /// Queues by their numbers, which rise.
    fn queues(&self, numbers: &[usize]) -> Vec<MessageQueue> {
        let (mut queues, mut first) = (Vec::with_capacity(numbers.len()), 0);
        let mut numbers = numbers.iter().peekable();
        for at in &self.brokers {
            let end = first + at.count as usize;
            while let Some(number) = numbers.next_if(|number| **number < end) {
                queues.extend(i32::try_from(number - first).map(|queue| self.queue(&at.broker, queue)));
            }
            first = end;
        }
        queues
    }

    fn any_of_each(&self) -> Vec<MessageQueue> {
        let with_queues = self.brokers.iter().filter(|at| at.count > 0);
        with_queues.map(|at| self.queue(&at.broker, ANY_QUEUE)).collect()
    }
}

pub(super) fn set_mode(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let settings: RequestModeDocument = decode_list("request mode", command)?;
    if settings.topic.starts_with(RETRY_PREFIX) {
        return Err(Refusal::NotPermitted("retry topic is not allowed to set mode".to_owned()));
    }
    if context.broker.catalog.topic(&settings.topic).is_none() {
        return Err(Refusal::NoSuchTopic(settings.topic));
    }
    context.broker.catalog.group_for_use(&GroupName::checked(&settings.consumer_group)?, context.now)?;
    context.broker.request_modes.set(settings, context.now)?;
    context.broker.keep(context.now).map_err(internal)?;
    Ok(Answer::ok())
}

/// All that was said of how groups ask for messages, for slaves.
pub(super) fn all_modes(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    table(context, || Ok(Answer::body(serde_json::to_vec(&context.broker.request_modes.table()).map_err(internal)?)))
}
