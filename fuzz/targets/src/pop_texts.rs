//! The texts of pop consumption: receipts, what an answer says of its messages, names of retry topics.

use std::collections::BTreeMap;

use wire::rocketmq::pop::answer::{
    OrderCounts, PopAnswer, PoppedQueue, message_offsets, put_message_offsets, put_message_order_count,
    put_queue_order_count, put_start_offset, start_offsets,
};
use wire::rocketmq::pop::header::PopResponse;
use wire::rocketmq::pop::origin::{Origin, asked_topic, group_and_topic};
use wire::rocketmq::pop::receipt::Receipt;

/// Whatever is read comes back the same after it was written, and receipts of an answer are receipts.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(receipt) = Receipt::parse(text) {
        assert!(!receipt.broker_name.contains(' '));
        assert_eq!(Receipt::parse(&receipt.to_string()), Ok(receipt.clone()));
    }
    starts(text);
    messages(text);
    counts(text);
    names(text);
    answer(text);
}

fn starts(text: &str) {
    let Ok(offsets) = start_offsets(text) else { return };
    let mut again = String::new();
    offsets.iter().for_each(|(&queue, &offset)| put_start_offset(&mut again, queue, offset));
    assert_eq!(start_offsets(&again), Ok(offsets));
}

fn messages(text: &str) {
    let Ok(mut messages) = message_offsets(text) else { return };
    let mut again = String::new();
    messages.iter().for_each(|(&queue, offsets)| put_message_offsets(&mut again, queue, offsets.iter().copied()));
    messages.retain(|_, offsets| !offsets.is_empty());
    assert_eq!(message_offsets(&again), Ok(messages));
}

fn counts(text: &str) {
    let Ok(counts) = OrderCounts::parse(text) else { return };
    let mut again = String::new();
    for (&(queue, offset), &count) in &counts.messages {
        put_message_order_count(&mut again, queue, offset, count);
        assert_eq!(counts.of(queue, offset), count);
    }
    counts.queues.iter().for_each(|(&queue, &count)| put_queue_order_count(&mut again, queue, count));
    assert_eq!(OrderCounts::parse(&again), Ok(counts));
}

/// A topic and a group in the lines of the text.
fn names(text: &str) {
    if let Some((group, topic)) = group_and_topic(text) {
        assert_eq!(Origin::RetryV2.stored_topic(topic, group), text);
        assert_eq!((Origin::of(text), asked_topic(text, group)), (Origin::RetryV2, Some(topic)));
    }
    let Some((stored, group)) = text.split_once('\n') else { return };
    if let Some(topic) = asked_topic(stored, group).filter(|_| !group.contains('+')) {
        assert_eq!(Origin::of(stored).stored_topic(topic, group), stored);
    }
}

/// The three texts of an answer in three lines.
fn answer(text: &str) {
    let mut lines = text.split('\n').map(|line| line.into());
    let header = PopResponse {
        pop_timestamp: 1,
        start_offset_info: lines.next(),
        message_offset_info: lines.next(),
        order_count_info: lines.next(),
        ..PopResponse::default()
    };
    let (Ok(answer), Some(Ok(starts)), Some(Ok(messages))) = (
        PopAnswer::of(&header),
        header.start_offset_info.as_deref().map(start_offsets),
        header.message_offset_info.as_deref().map(message_offsets),
    ) else {
        return;
    };
    for (queue, offsets) in messages {
        offsets.iter().for_each(|&offset| receipt(&answer, &starts, queue, offset));
    }
}

fn receipt(answer: &PopAnswer<'_>, starts: &BTreeMap<PoppedQueue, i64>, queue: PoppedQueue, offset: i64) {
    let stored = queue.origin.stored_topic("t", "g");
    let receipt = answer.receipt("b", &stored, queue.queue_id, offset);
    assert_eq!(receipt.as_ref().map(|receipt| receipt.start_offset), starts.get(&queue).copied());
    let Some(receipt) = receipt else { return };
    let is_written = receipt.start_offset >= 0 && offset >= 0 && queue.queue_id >= 0;
    let text = receipt.to_string();
    assert_eq!(Receipt::parse(&text).ok(), is_written.then_some(receipt));
}

/// One of each text as Java writes it, and some that it refuses.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "100 1700000000123 60000 5 0 broker-a 3 107",
        "100 1700000000123 60000 999 2 broker-a 3",
        "100 1700000000123 60000 5 1 broker a 3 107 4096",
        "0 0 100;1 0 7;2 2 9223372036854775807",
        "0 0 100,101,105;1 0 7",
        "0 qo1%105 2;0 qo1%106 1;0 1 1;1 0 0",
        "0 3 100;1 0 7\n0 3 107,109;1 0 7\n0 qo3%107 1;0 3 0",
        "0 1 2;;0 2 3,,",
        "%RETRY%billing+orders",
        "%RETRY%billing_orders\nbilling",
        "%RETRY%billing+orders\nbilling",
        "orders\nbilling",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
