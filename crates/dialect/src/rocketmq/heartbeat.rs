//! Heartbeats. Most say what the last one of their connection said: then, if nothing else has changed either, the client is seen again and
//! that is all.

use base::{GroupName, Refusal};
use broker::{Broker, ConsumerRegistration, Member};
use wire::rocketmq::body::client::{ConsumerData, Heartbeat};
use wire::rocketmq::frame::{Command, Language};

use super::answer::{Answer, Answered, Asked};
use super::connection::Connection;
use super::consumer::decode_list;
use super::context::Context;
use super::description::{ClientDescription, GroupDescription};
use super::error::remark_of;
use super::subscription::subscription_of;

/// A longer heartbeat is not kept, and is taken in full each time.
const KEPT_SIZE_MAX: usize = 4096;

/// The heartbeats of one connection.
#[derive(Default)]
pub(super) struct Heartbeats {
    last: Option<TakenIn>,
}

/// A heartbeat of which nothing was left out, and nothing is left to do.
struct TakenIn {
    body: Box<[u8]>,
    language: Language,
    version: i32,
    /// The catalog's, before it was taken in.
    generation: u64,
    client_id: String,
    producers: Vec<GroupName>,
    /// With the versions of what they want.
    consumers: Vec<(GroupName, u64)>,
}

impl Heartbeats {
    pub(super) fn heartbeat(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) {
        let answered = if self.is_repeated(command, connection) {
            Ok(taken())
        } else {
            // Before the groups are looked at: a change in between is seen with the next heartbeat.
            let generation = connection.broker.catalog.generation();
            let answered = take_in(&connection.context(), command);
            answered.map(|(answer, taken)| {
                self.last = taken.map(|taken| TakenIn { generation, ..taken });
                answer
            })
        };
        connection.reply_with(asked, answered);
    }

    fn is_repeated(&self, command: &Command<'_>, connection: &Connection) -> bool {
        let Connection { broker, peer, now, .. } = connection;
        let (body, header) = (command.body, &command.header);
        self.last.as_ref().is_some_and(|last| {
            (&*last.body, last.language, last.version) == (body, header.language, header.version)
                && last.generation == broker.catalog.generation()
                && broker.groups.refresh((&last.client_id, &peer.mailbox), &last.consumers, &last.producers, *now)
        })
    }

    /// Bytes that what is kept takes.
    pub(super) fn size(&self) -> usize {
        self.last.as_ref().map_or(0, |last| last.body.len())
    }
}

/// Takes a heartbeat as if it were the first.
pub(super) fn heartbeat(context: &Context<'_>, command: &Command<'_>) -> Answered {
    take_in(context, command).map(|(answer, _)| answer)
}

fn taken() -> Answer {
    // Clients of 5.1.3 and later may leave unchanged subscriptions out if told that they can.
    Answer::ok().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", true)
}

/// Registers what can be registered, as RocketMQ does: a group that cannot does not keep the others away. The answer's remark says what
/// was left out, and so does the log, once a connection.
fn take_in(context: &Context<'_>, command: &Command<'_>) -> Result<(Answer, Option<TakenIn>), Refusal> {
    let heartbeat: Heartbeat = decode_list("heartbeat", command)?;
    if heartbeat.client_id.is_empty() {
        return Err(Refusal::BadRequest("the heartbeat has no clientID".to_owned()));
    }
    let (broker, peer) = (context.broker, context.peer);
    let member = Member {
        client_id: heartbeat.client_id,
        address: peer.address,
        description: ClientDescription::of_request(&command.header),
        mailbox: peer.mailbox.clone(),
        seen: context.now,
    };
    let mut left_out = LeftOut::default();
    let (mut producers, mut consumers) = (Vec::new(), Vec::new());
    for producer in &heartbeat.producers {
        let registered = register_producer(&producer.group_name, &member, broker);
        producers.extend(left_out.note("producer", registered));
    }
    let names = heartbeat.consumers.iter().filter_map(|consumer| GroupName::checked(&consumer.group_name).ok());
    broker.catalog.prepare_groups(&names.collect::<Vec<_>>(), context.now);
    for consumer in heartbeat.consumers {
        let registered = register_consumer(consumer, heartbeat.without_subscriptions, &member, context);
        consumers.extend(left_out.note("consumer", registered));
    }
    let consumers: Option<Vec<_>> = consumers.into_iter().collect();
    let remark = left_out.remark();
    if let Some(reason) = &remark {
        broker.groups.note_left_out(&member, reason);
        return Ok((Answer { remark, ..taken() }, None));
    }
    let kept = consumers.filter(|_| command.body.len() <= KEPT_SIZE_MAX).map(|consumers| TakenIn {
        body: command.body.into(),
        language: command.header.language,
        version: command.header.version,
        generation: 0,
        client_id: member.client_id,
        producers,
        consumers,
    });
    Ok((taken(), kept))
}

fn register_producer(group: &str, member: &Member, broker: &Broker) -> Result<GroupName, Refusal> {
    let group = GroupName::checked(group)?;
    broker.groups.register_producer(&group, member)?;
    Ok(group)
}

fn register_consumer(
    consumer: ConsumerData,
    keeps_subscriptions: bool,
    member: &Member,
    context: &Context<'_>,
) -> Result<Option<(GroupName, u64)>, Refusal> {
    let registration = registration_of(consumer, keeps_subscriptions)?;
    let group = registration.group.clone();
    let version = context.broker.groups.register_consumer(member, registration, context.now)?;
    Ok(version.map(|version| (group, version)))
}

fn registration_of(consumer: ConsumerData, keeps_subscriptions: bool) -> Result<ConsumerRegistration, Refusal> {
    let subscriptions = consumer.subscription_data_set.into_iter().map(subscription_of).collect::<Result<_, _>>()?;
    let group = GroupName::checked(&consumer.group_name)?;
    let description = GroupDescription {
        consume_type: consumer.consume_type,
        message_model: consumer.message_model,
        consume_from_where: consumer.consume_from_where,
    };
    let description = description.checked(&group)?;
    Ok(ConsumerRegistration { group, description, subscriptions, keeps_subscriptions })
}

/// Groups of a heartbeat that were not registered.
#[derive(Default)]
struct LeftOut {
    count: usize,
    first: Option<String>,
}

impl LeftOut {
    fn note<T>(&mut self, kind: &str, registered: Result<T, Refusal>) -> Option<T> {
        registered
            .inspect_err(|refusal| {
                self.count += 1;
                self.first.get_or_insert_with(|| format!("{kind}: {}", remark_of(refusal)));
            })
            .ok()
    }

    fn remark(self) -> Option<String> {
        let first = self.first?;
        Some(if self.count == 1 {
            format!("left out: {first}")
        } else {
            format!("left out: {} groups; {first}", self.count)
        })
    }
}
