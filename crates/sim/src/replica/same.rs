//! What a slave has in common with its master.

use base::{QueueId, QueueOffset, TopicName};

use crate::node::Node;
use crate::oracle::{Checked, Rule, check};

/// The queues of a slave begin with what its master has there.
pub(super) fn check_begins(slave: &Node, master: &Node) -> Checked {
    let masters = master.bounds();
    for ((topic, number), (first, end)) in slave.bounds() {
        let first_of_master = masters.get(&(topic.clone(), number)).map_or(end, |(first, _)| *first);
        let entry = |node: &Node, offset| {
            let queues = node.broker.store().queues_of(&TopicName::trusted(&topic));
            let queue = queues.into_iter().find(|queue| queue.queue() == QueueId(number))?;
            queue.entry(QueueOffset(offset)).ok().flatten()
        };
        let at = first.max(first_of_master);
        let (mine, masters) = (entry(slave, at), entry(master, at));
        check(at >= end || mine == masters, Rule::SlavesFollow, || {
            format!(
                "{topic} queue {number} of the slave begins at {first}: at {at} it has {mine:?}, and its master {masters:?}"
            )
        })?;
        let begin = entry(slave, first).map_or(0, |entry| entry.log_offset.0);
        check(first >= end || begin >= slave.log_first(), Rule::SlavesFollow, || {
            format!("{topic} queue {number} of the slave begins at {first}, with {begin} of a log that begins later")
        })?;
    }
    Ok(())
}

/// A slave has the topics of its master, and its groups as they are there.
pub(super) fn check_settings(slave: &Node, master: &Node) -> Checked {
    check_same(&topics(slave), &topics(master))?;
    // Of groups that members made on a full disk the master's log tells later.
    let (mine, masters) = (groups(slave), groups(master));
    check(mine.iter().all(|group| masters.contains(group)), Rule::SlavesFollow, || {
        format!("groups of the slave are {mine:?}, and its master's {masters:?}")
    })
}

/// All tables of a slave are as its master's.
pub(super) fn check_tables(slave: &Node, master: &Node) -> Checked {
    check_same(&tables(slave), &tables(master))
}

fn check_same(slaves: &[String], masters: &[String]) -> Checked {
    let other: Vec<_> = slaves.iter().zip(masters).filter(|(one, other)| one != other).collect();
    let count = (slaves.len(), masters.len());
    check(count.0 == count.1 && other.is_empty(), Rule::SlavesFollow, || {
        format!("tables of the slave are others: {count:?} {other:?}")
    })
}

/// Topics of a node, in order.
fn topics(node: &Node) -> Vec<String> {
    let topics = node.broker.catalog.topic_table().topic_config_table.into_values();
    topics.map(|topic| format!("{topic:?}")).collect()
}

/// Its groups, in order.
fn groups(node: &Node) -> Vec<String> {
    let groups = node.broker.catalog.group_table().subscription_group_table.into_values();
    groups.map(|group| format!("{group:?}")).collect()
}

/// What the tables of a node say, in order.
fn tables(node: &Node) -> Vec<String> {
    let broker = &node.broker;
    let of = |document: serde_json::Value| document["offsetTable"].as_object().cloned().unwrap_or_default();
    let offsets = of(broker.offsets.document()).into_iter().map(|(of, offsets)| format!("{of}: {offsets}"));
    // A level that was not begun is at 0.
    let delays = of(broker.delay.document()).into_iter().filter(|(_, delivered)| *delivered != 0);
    let delays = delays.map(|(level, delivered)| format!("level {level}: {delivered}"));
    topics(node).into_iter().chain(groups(node)).chain(offsets).chain(delays).collect()
}
