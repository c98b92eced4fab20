//! Figures by topic, by group and by AMQP's queues: so many by name as the settings allow, the rest summed.

use std::collections::BTreeMap;

use base::metric::Kind;
use broker::lease::LeaseCounts;
use broker::{Broker, GroupProgress, Topic, Unsettled};

use super::exposition::Page;
use super::names::{Lasting, OTHER, Shown};
use super::{Labelled, with};

/// What a topic has.
struct TopicFigures {
    name: String,
    stored: u64,
    kept: u64,
}

impl TopicFigures {
    fn of(topic: &Topic) -> Self {
        let bounds = topic.queues.iter().map(|queue| (queue.first().0, queue.end().0));
        let (stored, kept) =
            bounds.fold((0, 0), |(stored, kept), (first, end)| (stored + end, kept + end.saturating_sub(first)));
        Self { name: topic.name.as_str().to_owned(), stored, kept }
    }
}

/// What was stored in each topic, and what is still there. `lasting` has the names that a page before showed, by broker.
pub(super) fn topics(page: &mut Page, brokers: &[Labelled<'_>], names_max: usize, lasting: &mut Vec<Lasting>) {
    lasting.resize_with(brokers.len(), Lasting::default);
    let shown: Vec<_> = brokers
        .iter()
        .zip(lasting)
        .map(|((labels, broker), lasting)| {
            let all = broker.catalog.topics().iter().map(|topic| TopicFigures::of(topic)).collect();
            (labels, lasting.choose(all, names_max, |topic| &topic.name, |topic| topic.stored))
        })
        .collect();
    let mut family = |name, kind, help, value: fn(&TopicFigures) -> u64| {
        let mut family = page.family(name, kind, help);
        for (labels, Shown { named, rest }) in &shown {
            let rest = (!rest.is_empty()).then(|| (OTHER, rest.iter().map(value).sum()));
            for (topic, figure) in named.iter().map(|topic| (&*topic.name, value(topic))).chain(rest) {
                family.figure(&with(labels, [("topic", topic)]), figure);
            }
        }
    };
    let help = "Messages stored in a topic since it was made.";
    family("sluice_topic_messages_in", Kind::Counter, help, |topic| topic.stored);
    family("sluice_topic_messages", Kind::Gauge, "Messages of a topic that are kept.", |topic| topic.kept);
}

/// How far each group has come in each of its topics.
pub(super) fn progress(page: &mut Page, brokers: &[Labelled<'_>], names_max: usize) {
    let is_nameless = |one: &GroupProgress| one.topic == OTHER || one.group == OTHER;
    let shown: Vec<_> = brokers
        .iter()
        .map(|(labels, broker)| {
            let all = broker.snapshots.progress_by_group();
            (labels, Shown::largest(all, names_max, is_nameless, |one| one.lag))
        })
        .collect();
    let mut family = |name, help, value: fn(&GroupProgress) -> u64| {
        let mut family = page.family(name, Kind::Gauge, help);
        for (labels, Shown { named, rest }) in &shown {
            let rest = (!rest.is_empty()).then(|| (OTHER, OTHER, rest.iter().map(value).sum()));
            for (topic, group, figure) in named.iter().map(|one| (&*one.topic, &*one.group, value(one))).chain(rest) {
                family.figure(&with(labels, [("topic", topic), ("group", group)]), figure);
            }
        }
    };
    family("sluice_group_lag_messages", "Messages of a topic that a group has not consumed.", |one| one.lag);
    let help = "Messages of a topic that a group has consumed, by its committed offsets; less after a reset.";
    family("sluice_group_consumed_messages", help, |one| one.consumed);
}

/// What groups that settle message by message have not settled, and how much of the log that is, as retention saw it last.
pub(super) fn unsettled(page: &mut Page, brokers: &[Labelled<'_>], names_max: usize) {
    let is_nameless = |one: &Unsettled| one.topic == OTHER || one.group == OTHER;
    let size = |one: &Unsettled| one.counts.ready + one.counts.leased + one.counts.delayed;
    let shown: Vec<_> = brokers
        .iter()
        .map(|(labels, broker)| (labels, Shown::largest(broker.retention.unsettled(), names_max, is_nameless, size)))
        .collect();
    let help = "Messages that a popping group has not acknowledged, by what they are: ready, leased or delayed.";
    let mut family = page.family("sluice_unsettled_messages", Kind::Gauge, help);
    for (labels, Shown { named, rest }) in &shown {
        let rest_counts = rest.iter().fold(LeaseCounts::default(), |sum, one| sum.plus(one.counts));
        let rest = (!rest.is_empty()).then_some((OTHER, OTHER, rest_counts));
        for (topic, group, counts) in named.iter().map(|one| (&*one.topic, &*one.group, one.counts)).chain(rest) {
            let LeaseCounts { ready, leased, delayed } = counts;
            for (state, count) in [("ready", ready), ("leased", leased), ("delayed", delayed)] {
                family.figure(&with(labels, [("topic", topic), ("group", group), ("state", state)]), count);
            }
        }
    }
    let help = "Bytes of the log from the oldest message on that a popping group has not acknowledged.";
    let mut family = page.family("sluice_unsettled_bytes", Kind::Gauge, help);
    for (labels, Shown { named, rest }) in &shown {
        // Each begins somewhere else and reaches to the end of the log: the longest of the rest has the others in it.
        let rest = rest.iter().map(|one| (OTHER, OTHER, one.log_size)).max();
        for (topic, group, bytes) in named.iter().map(|one| (&*one.topic, &*one.group, one.log_size)).chain(rest) {
            family.figure(&with(labels, [("topic", topic), ("group", group)]), bytes);
        }
    }
}

/// What a queue of AMQP has.
#[derive(Clone, Copy, Default)]
struct QueueFigures {
    ready: u64,
    unacknowledged: u64,
    consumers: u64,
}

impl QueueFigures {
    const fn plus(self, other: Self) -> Self {
        Self {
            ready: self.ready + other.ready,
            unacknowledged: self.unacknowledged + other.unacknowledged,
            consumers: self.consumers + other.consumers,
        }
    }
}

/// A queue's virtual host and its name, as they are shown.
type QueueName = (String, String);

/// What the queues of AMQP have.
pub(super) fn queues(page: &mut Page, brokers: &[Labelled<'_>], names_max: usize) {
    let is_nameless = |((vhost, _), _): &(QueueName, QueueFigures)| vhost == OTHER;
    let shown: Vec<_> = brokers
        .iter()
        .map(|(labels, broker)| {
            let all = queues_of(broker).into_iter().collect();
            let shown = Shown::largest(all, names_max, is_nameless, |(_, figures)| figures.ready);
            let named = shown.named.into_iter();
            let rest = shown.rest.into_iter().map(|(_, figures)| figures).reduce(QueueFigures::plus);
            let rest = rest.map(|figures| ((OTHER.to_owned(), OTHER.to_owned()), figures));
            (labels, named.chain(rest).collect::<Vec<_>>())
        })
        .collect();
    let help = "Messages in a queue of AMQP, by what they are: ready or unacknowledged.";
    let mut family = page.family("sluice_queue_messages", Kind::Gauge, help);
    for (labels, queues) in &shown {
        for ((vhost, queue), figures) in queues {
            for (state, count) in [("ready", figures.ready), ("unacknowledged", figures.unacknowledged)] {
                family.figure(&with(labels, [("vhost", &**vhost), ("queue", queue), ("state", state)]), count);
            }
        }
    }
    let mut family = page.family("sluice_queue_consumers", Kind::Gauge, "Consumers of a queue of AMQP.");
    for (labels, queues) in &shown {
        for ((vhost, queue), figures) in queues {
            family.figure(&with(labels, [("vhost", &**vhost), ("queue", queue)]), figures.consumers);
        }
    }
}

/// Queues by name. Exclusive ones go with their connection, and their names with them: they are not told apart.
fn queues_of(broker: &Broker) -> BTreeMap<QueueName, QueueFigures> {
    let mut all = BTreeMap::<_, QueueFigures>::new();
    for host in broker.model.hosts() {
        for queue in host.queues() {
            let counts = queue.counts();
            let figures = QueueFigures {
                ready: counts.ready,
                unacknowledged: counts.leased,
                consumers: queue.consumer_count() as u64,
            };
            let name = match queue.wish().owner {
                Some(_) => (OTHER.to_owned(), OTHER.to_owned()),
                None => (host.name().to_string(), broker::Shown(queue.name()).to_string()),
            };
            let sum = all.entry(name).or_default();
            *sum = sum.plus(figures);
        }
    }
    all
}
