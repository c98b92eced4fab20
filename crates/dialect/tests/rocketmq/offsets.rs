//! Promises about offsets: what was committed is known, and where a group begins.

use std::sync::Arc;
use std::time::Duration;

use base::QueueId;
use base::offset::{AckPolicy, Watermark};
use base::session::Session;
use storage::disk::{Disk, FaultyDisk, MemoryDisk};
use testkit::{ManualHost, broker_options};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::header::pull_flag;

use crate::bench::{Bench, START};
use crate::client::{Ask, Client, ask, heartbeat, held_pull, pull, send};

fn commit(offset: i64) -> Ask {
    Ask { code: request::UPDATE_CONSUMER_OFFSET, ..query().with("commitOffset", offset) }
}

fn query() -> Ask {
    ask(request::QUERY_CONSUMER_OFFSET, &[("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0")])
}

fn of_queue(code: i32) -> Ask {
    ask(code, &[("topic", "orders"), ("queueId", "0")])
}

/// Sets `billing` in `orders` to an offset, or to a time if that is below 0.
fn reset(offset: i64, timestamp: u64, is_force: bool) -> Ask {
    ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &[("topic", "orders"), ("group", "billing")])
        .with("offset", offset)
        .with("timestamp", timestamp)
        .with("isForce", is_force)
}

/// A client that has sent four messages, one a second.
fn sender(bench: &Bench) -> Client {
    let mut client = bench.client();
    for number in 0..4 {
        client.ask_well(send("orders", &number.to_string()));
        client.wait(1000);
    }
    client
}

fn committed(client: &mut Client) -> i64 {
    client.ask_well(query()).number("offset")
}

#[test]
fn a_commit_is_answered_once_the_log_has_it() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    bench.stop_writing();
    assert!(client.give(&[commit(0), commit(1)]).is_empty(), "neither is in the log yet");
    assert_eq!(client.ask_well(query()).number("offset"), 1, "it counts already");
    bench.write();
    let codes: Vec<_> = client.hear().iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [response::SUCCESS; 2]);
    // Nothing is new: there is nothing to wait for.
    client.ask_well(commit(1));
    assert!(client.give(&[commit(0).one_way()]).is_empty());
    assert_eq!(client.ask_well(query()).number("offset"), 0);
}

#[test]
fn commits_that_come_in_numbers_gather_and_one_record_answers_them_all() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.client(), bench.client());
    one.ask_well(send("orders", "x"));
    let answered_at_once = (0..1000).take_while(|&offset| !one.give(&[commit(offset)]).is_empty()).count();
    assert!((5..100).contains(&answered_at_once), "{answered_at_once}");
    let end = bench.broker.durability.reached(Watermark::Written);
    assert!(other.give(&[commit(7), commit(8)]).is_empty());
    let due = one.session.deadline().expect("somebody has to see to it");
    assert_eq!(one.wait(due.ms_since(one.now.monotonic)).len(), 1);
    assert_eq!(other.hear().len(), 2, "they wait for nothing of their own");
    assert_eq!((one.session.deadline(), other.session.deadline()), (None, None));
    let size = bench.broker.durability.reached(Watermark::Written).0 - end.0;
    assert!((1..200).contains(&size), "{size} bytes");
    assert_eq!(committed(&mut one), 8);
}

#[test]
fn a_commit_is_taken_as_it_is() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    for offset in [3, 1, 1000, 0] {
        client.ask_well(commit(offset));
        assert_eq!(committed(&mut client), offset);
    }
    // Another queue and another group are another matter.
    client.ask_well(commit(2).with("queueId", 1));
    client.ask_well(commit(3).with("consumerGroup", "shipping"));
    assert_eq!(committed(&mut client), 0);
    assert_eq!(client.ask_well(query().with("queueId", 1)).number("offset"), 2);
    assert_eq!(client.give(&[commit(4).one_way()]), []);
    assert_eq!(committed(&mut client), 4);
}

#[test]
fn a_commit_that_makes_no_sense_is_refused() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    client.ask_well(commit(1));
    for (asked, code) in [
        (commit(-1), response::SYSTEM_ERROR),
        (commit(2).with("topic", "none"), response::TOPIC_NOT_EXIST),
        (commit(2).with("queueId", 4), response::SYSTEM_ERROR),
        (commit(2).with("queueId", -1), response::SYSTEM_ERROR),
        (commit(2).without("consumerGroup"), response::SYSTEM_ERROR),
        (commit(2).with("commitOffset", "two"), response::SYSTEM_ERROR),
    ] {
        assert_eq!(client.ask(asked).code, code);
    }
    assert_eq!(committed(&mut client), 1);
}

#[test]
fn what_a_slave_tells_lowers_no_offset() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let tell = |offset: i64| commit(offset).with("sluiceOnlyForward", true);
    for (told, expected) in [(2, 2), (1, 2), (3, 3)] {
        client.ask_well(tell(told));
        assert_eq!(committed(&mut client), expected);
    }
    assert_eq!(client.ask(tell(-1)).code, response::SYSTEM_ERROR);
    assert_eq!(client.ask(tell(9).with("topic", "none")).code, response::TOPIC_NOT_EXIST);
}

#[test]
fn a_pull_commits_if_it_says_so() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let asked = pull("billing", "orders", 0).with("commitOffset", 3);
    client.ask_well(asked.clone());
    assert_eq!(committed(&mut client), 0);
    client.ask_well(asked.with("sysFlag", pull_flag::SUBSCRIPTION | pull_flag::COMMIT_OFFSET));
    assert_eq!(committed(&mut client), 3);
}

#[test]
fn a_new_group_begins_at_the_start_of_a_young_queue_or_by_its_own_rule() {
    let young = Bench::new();
    let mut client = sender(&young);
    assert_eq!(committed(&mut client), 0);
    let own_rule = query().with("setZeroIfNotFound", false);
    assert_eq!(client.ask(own_rule.clone()).code, response::QUERY_NOT_FOUND);
    client.ask_well(commit(2));
    assert_eq!(client.ask_well(own_rule).number("offset"), 2);
    let old = Bench::with(|setup| setup.broker.young_queue_size = 0);
    assert_eq!(sender(&old).ask(query()).code, response::QUERY_NOT_FOUND);
}

#[test]
fn the_bounds_of_a_queue_are_told() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    assert_eq!(client.ask_well(of_queue(request::GET_MIN_OFFSET)).number("offset"), 0);
    assert_eq!(client.ask_well(of_queue(request::GET_MAX_OFFSET)).number("offset"), 4);
    let empty = of_queue(request::GET_MAX_OFFSET).with("queueId", 1);
    assert_eq!(client.ask_well(empty).number("offset"), 0);
    let earliest = of_queue(request::GET_EARLIEST_MESSAGE_STORE_TIME);
    assert_eq!(client.ask_well(earliest.clone()).number("timestamp"), crate::bench::START.wall.0 as i64);
    assert_eq!(client.ask_well(earliest.with("queueId", 1)).number("timestamp"), -1);
    for code in [
        request::GET_MIN_OFFSET,
        request::GET_MAX_OFFSET,
        request::SEARCH_OFFSET_BY_TIMESTAMP,
        request::GET_EARLIEST_MESSAGE_STORE_TIME,
        request::QUERY_CONSUMER_OFFSET,
    ] {
        let asked = of_queue(code).with("timestamp", 0).with("consumerGroup", "billing");
        assert_eq!(client.ask(asked.clone().with("topic", "none")).code, response::TOPIC_NOT_EXIST, "{code}");
        assert_eq!(client.ask(asked.with("queueId", 4)).code, response::SYSTEM_ERROR, "{code}");
    }
}

#[test]
fn an_offset_is_found_by_time() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let start = crate::bench::START.wall.0 as i64;
    // Messages came at 0 s, 1 s, 2 s and 3 s.
    for (time_ms, lower, upper) in
        [(-1, 0, 0), (0, 0, 0), (999, 1, 0), (1000, 1, 1), (1001, 2, 1), (3000, 3, 3), (3001, 4, 3)]
    {
        for (boundary, offset) in [("LOWER", lower), ("UPPER", upper)] {
            let asked = of_queue(request::SEARCH_OFFSET_BY_TIMESTAMP)
                .with("timestamp", start + time_ms)
                .with("boundaryType", boundary);
            assert_eq!(client.ask_well(asked).number("offset"), offset, "{time_ms} {boundary}");
        }
        let asked = of_queue(request::SEARCH_OFFSET_BY_TIMESTAMP).with("timestamp", start + time_ms);
        assert_eq!(client.ask_well(asked).number("offset"), lower, "{time_ms}");
    }
}

#[test]
fn a_group_is_set_back_by_time_or_offset_and_forward_only_by_force() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let start = crate::bench::START.wall.0;
    assert_eq!(client.ask(reset(0, 0, true)).code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    bench.make_group("billing", format::document::GroupDocument::default());
    client.ask_well(commit(3));
    for (asked, offset) in [
        (reset(2, 0, false), 2),
        (reset(3, 0, false), 2),
        (reset(3, 0, true), 3),
        (reset(1000, 0, true), 4),
        (reset(-1, start + 1000, false), 1),
        (reset(-1, start + 2000, false), 1),
        (reset(-1, start + 2000, true), 2),
    ] {
        client.ask_well(asked);
        assert_eq!(committed(&mut client), offset);
    }
}

#[test]
fn a_group_takes_over_the_offsets_of_another_in_one_topic_or_in_all() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    client.ask_well(send("returns", "x"));
    client.ask_well(commit(3));
    client.ask_well(commit(2).with("queueId", 1));
    client.ask_well(commit(1).with("topic", "returns"));
    let of = |group: &str, topic: &str, queue: i32| {
        query().with("consumerGroup", group).with("topic", topic).with("queueId", queue)
    };
    let clone = |target: &str| ask(request::CLONE_GROUP_OFFSET, &[("srcGroup", "billing"), ("destGroup", target)]);
    client.ask_well(clone("one").with("topic", "orders"));
    client.ask_well(clone("both"));
    for (group, returns) in [("one", 0), ("both", 1)] {
        let mut offset = |topic: &str, queue: i32| client.ask_well(of(group, topic, queue)).number("offset");
        assert_eq!([offset("orders", 0), offset("orders", 1), offset("returns", 0)], [3, 2, returns], "{group}");
    }
    assert_eq!(committed(&mut client), 3, "the other group keeps its own");
}

fn clone_to(target: &str) -> Ask {
    let named = [("srcGroup", "billing"), ("destGroup", target), ("topic", "orders")];
    ask(request::CLONE_GROUP_OFFSET, &named)
}

#[test]
fn offsets_taken_over_are_answered_as_safe_as_messages_are() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = Bench::with(|setup| {
        setup.store.disk = Disk::new(disk.clone());
        setup.broker.ack_policy = AckPolicy::DURABLE;
    });
    let mut client = sender(&bench);
    client.ask_well(commit(2));
    client.ask_well(clone_to("audit"));
    let left = disk.after_power_cut(disk.points(), || false);
    let store = storage::Options { disk: Disk::new(left), ..testkit::store_options(bench.directory()) };
    let broker = testkit::open_broker(broker_options(), store, Arc::new(ManualHost::default()), START).expect("opens");
    assert_eq!(broker.offsets.committed("orders", "audit", QueueId(0)), Some(2));
}

/// As RocketMQ does.
#[test]
fn a_group_keeps_its_offsets_where_the_other_has_none() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    client.ask_well(commit(2).with("consumerGroup", "audit"));
    client.ask_well(clone_to("audit"));
    assert_eq!(bench.broker.offsets.committed("orders", "audit", QueueId(0)), Some(2));
}

#[test]
fn a_pull_commits_for_its_own_queue() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let flags = pull_flag::SUBSCRIPTION | pull_flag::COMMIT_OFFSET;
    client.ask(pull("billing", "orders", 0).with("queueId", 2).with("commitOffset", 7).with("sysFlag", flags));
    let of = |number: i32| query().with("queueId", number).with("setZeroIfNotFound", false);
    assert_eq!(client.ask_well(of(2)).number("offset"), 7);
    for other in [0, 1, 3] {
        assert_eq!(client.ask(of(other)).code, response::QUERY_NOT_FOUND, "{other}");
    }
}

#[test]
fn commits_of_before_a_reset_are_ignored_until_a_pull_has_told_of_it() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    client.give(&[heartbeat("one", "billing", "orders", "*", 1), commit(3)]);
    client.ask_well(reset(1, 0, true));
    for late in [4, 2] {
        client.ask_well(commit(late));
        // Whoever asks sees the reset, and does not take it away from who pulls.
        assert_eq!(committed(&mut client), 1);
        assert_eq!(bench.client().ask_well(query()).number("offset"), 1);
    }
    let commits_too = pull_flag::SUBSCRIPTION | pull_flag::COMMIT_OFFSET;
    let told = client.ask(pull("billing", "orders", 4).with("commitOffset", 4).with("sysFlag", commits_too));
    assert_eq!((told.code, told.number("nextBeginOffset")), (response::PULL_OFFSET_MOVED, 1));
    assert_eq!(committed(&mut client), 1);
    client.ask_well(commit(2));
    assert_eq!(committed(&mut client), 2);
    assert_eq!(client.ask_well(pull("billing", "orders", 1)).bodies(), ["1", "2", "3"], "it was told once");
}

#[test]
fn every_queue_of_a_reset_is_told_of_by_itself_and_no_other_group() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    for number in 1..4 {
        client.ask_well(send("orders", "x").with("e", number));
    }
    client.give(&[heartbeat("one", "billing", "orders", "*", 1), heartbeat("one", "shipping", "orders", "*", 1)]);
    client.ask_well(reset(1, 0, true));
    let pull_of = |group: &str, number: i32| pull(group, "orders", 0).with("queueId", number);
    for number in [2, 0, 1, 3] {
        assert_ne!(client.ask(pull_of("shipping", number)).code, response::PULL_OFFSET_MOVED, "{number}");
        assert_eq!(client.ask(pull_of("billing", number)).code, response::PULL_OFFSET_MOVED, "{number}");
        assert_ne!(client.ask(pull_of("billing", number)).code, response::PULL_OFFSET_MOVED, "{number}");
    }
    // Who begins there already has nothing to be told.
    client.ask_well(reset(0, 0, true));
    assert_eq!(client.ask(pull_of("billing", 0)).code, response::SUCCESS);
    assert_eq!(client.ask(pull_of("billing", 0).with("queueOffset", 1)).code, response::SUCCESS);
    for number in 1..4 {
        client.ask(pull_of("billing", number));
    }
    // Of one queue alone, beside one that is still to be told.
    client.ask_well(reset(1, 0, true).with("queueId", 1));
    client.ask_well(reset(1, 0, true).with("queueId", 3));
    for (number, is_told) in [(0, false), (1, true), (2, false), (3, true)] {
        assert_eq!(client.ask(pull_of("billing", number)).code == response::PULL_OFFSET_MOVED, is_told, "{number}");
    }
}

#[test]
fn a_pull_that_waits_is_told_of_a_reset_at_once() {
    let bench = Bench::new();
    let mut consumer = sender(&bench);
    let mut admin = bench.client();
    consumer.give(&[heartbeat("one", "billing", "orders", "*", 1), commit(4)]);
    let mut other = bench.client();
    other.give(&[heartbeat("two", "shipping", "orders", "*", 1)]);
    other.hear();
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 4)]), []);
    assert_eq!(other.give(&[held_pull("shipping", "orders", 4)]), []);
    admin.ask_well(reset(1, 0, true));
    let told = consumer.hear();
    assert_eq!(
        told.iter().map(|reply| (reply.code, reply.number("nextBeginOffset"))).collect::<Vec<_>>(),
        [(response::PULL_OFFSET_MOVED, 1)]
    );
    // The reset is not its group's: it goes on waiting, and is woken by the next message.
    assert_eq!(other.hear(), []);
    admin.ask_well(send("orders", "next"));
    assert_eq!(other.hear().iter().flat_map(crate::client::Reply::bodies).collect::<Vec<_>>(), ["next"]);
}

#[test]
fn what_is_fetched_and_not_yet_committed_is_told_by_the_statistics() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let mut tool = bench.client();
    // The bodies are JSON but for their keys, which are objects.
    let number = |text: &str, name: &str| {
        let rest = text.split(&format!("\"{name}\":")).nth(1).expect("a number");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<i64>().expect("a number")
    };
    let mut progress = || {
        let mut body = |asked| String::from_utf8(tool.ask_well(asked).body).expect("text");
        let one = body(ask(request::GET_CONSUME_STATS, &[("consumerGroup", "billing"), ("topic", "orders")]));
        let queue_0 = one.split("\"queueId\":0,").nth(1).expect("queue 0");
        let places = ["brokerOffset", "consumerOffset", "pullOffset"].map(|name| number(queue_0, name));
        let all = body(ask(request::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")]));
        (places, number(&all, "totalDiff"), number(&all, "totalInflightDiff"))
    };
    client.ask_well(pull("billing", "orders", 0).with("maxMsgNums", 3));
    client.ask_well(commit(1));
    assert_eq!(progress(), ([4, 1, 3], 3, 2));
    // Of another group and another queue.
    client.ask_well(pull("shipping", "orders", 0));
    client.ask(pull("billing", "orders", 0).with("queueId", 1));
    assert_eq!(progress(), ([4, 1, 3], 3, 2));
    client.ask_well(commit(4));
    assert_eq!(progress(), ([4, 4, 4], 0, 0), "what is committed was fetched");
    client.ask_well(reset(1, 0, true));
    assert_eq!(progress(), ([4, 1, 1], 3, 0), "after a reset nothing is on its way");
    client.ask_well(pull("billing", "orders", 1));
    // More queues make it another topic to the connection, and the places stay.
    let settings = format::document::TopicDocument { read_queue_nums: 9, write_queue_nums: 9, ..Default::default() };
    bench.make_topic("orders", settings);
    assert_eq!(progress(), ([4, 1, 4], 3, 3));
    client.ask(pull("billing", "orders", 0).with("queueId", 8));
    assert_eq!(progress(), ([4, 1, 4], 3, 3));
}

#[test]
fn a_connection_that_fetches_for_many_groups_notes_all_of_them() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let groups: Vec<_> = (0..40).map(|number| format!("group-{number}")).collect();
    for round in [2, 3] {
        for group in &groups {
            client.ask_well(pull(group, "orders", 0).with("maxMsgNums", round));
        }
        for group in &groups {
            let fetched = bench.broker.snapshots.progress("orders", group).expect("is there");
            assert_eq!(fetched[0].fetched, round, "{group}");
        }
    }
}

#[test]
fn queues_without_a_use_are_cleaned_on_request() {
    let bench = Bench::new();
    let mut client = sender(&bench);
    let settings = |queues| format::document::TopicDocument {
        read_queue_nums: queues,
        write_queue_nums: queues,
        ..format::document::TopicDocument::default()
    };
    bench.make_topic("orders", settings(2));
    bench.broker.store().queue(&base::TopicName::trusted("stray"), QueueId(0));
    let known = || bench.broker.store().topics().into_iter().map(|(name, count)| (name.as_str().to_owned(), count));
    let count_of = |name: &str| known().find(|(known, _)| known == name).map(|(_, count)| count);
    assert_eq!((count_of("orders"), count_of("stray")), (Some(4), Some(1)));
    client.ask_well(ask(request::CLEAN_EXPIRED_CONSUME_QUEUE, &[]));
    assert_eq!(count_of("orders"), Some(2), "queues 2 and 3 are empty");
    client.ask_well(ask(request::CLEAN_UNUSED_TOPIC, &[]));
    assert_eq!(count_of("stray"), None);
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies(), ["0", "1", "2", "3"]);
}

#[test]
fn what_is_old_enough_goes_at_once_when_an_administrator_says_so() {
    let policy = storage::RetentionPolicy {
        age_ms: 1000,
        delete_hours: vec![4],
        // However full this machine's disk is.
        disk_used_percent: 100,
        disk_force_percent: None,
        disk_refuse_percent: 100,
        size: None,
    };
    let bench = Bench::with(|setup| {
        setup.store.segment_size = 64 * 1024;
        setup.store.retention = policy;
    });
    let mut client = bench.client();
    let body = "x".repeat(10_000);
    for _ in 0..20 {
        client.ask_well(send("orders", &body));
    }
    bench.broker.checkpoint(client.now).expect("a checkpoint");
    // A segment is as old as its file says.
    for segment in std::fs::read_dir(bench.directory().join("commitlog")).expect("lists") {
        let file = std::fs::File::open(segment.expect("an entry").path()).expect("opens");
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_millis(client.now.wall.0)).expect("is made older");
    }
    client.wait(2000);
    assert_ne!(client.now.wall.hour_of_day(), 4);
    bench.broker.retention.apply(client.now).expect("looked");
    let first = || bench.broker.catalog.queues_of("orders").expect("there")[0].first().0;
    assert_eq!(first(), 0, "it is not the hour");
    client.ask_well(ask(request::DELETE_EXPIRED_COMMIT_LOG, &[]));
    assert!(first() > 0);
}

#[test]
fn messages_stored_and_consumed_are_told_by_minute_hour_and_day() {
    let bench = Bench::new();
    let mut client = bench.client();
    let stats = |client: &mut Client, name: &str, key: &str| {
        let asked = ask(request::VIEW_BROKER_STATS_DATA, &[("statsName", name), ("statsKey", key)]);
        let reply = client.ask(asked);
        if reply.code == 0 { reply.json() } else { serde_json::Value::String(reply.remark) }
    };
    client.ask_well(send("orders", "first"));
    bench.broker.expire(client.now);
    for round in 1..=6 {
        (0..5).for_each(|_| drop(client.ask_well(send("orders", "x"))));
        client.ask_well(commit(round * 3));
        client.wait(10_000);
        bench.broker.expire(client.now);
    }
    let stored = stats(&mut client, "TOPIC_PUT_NUMS", "orders");
    assert_eq!((stored["statsMinute"]["sum"].as_i64(), stored["statsMinute"]["tps"].as_f64()), (Some(30), Some(0.5)));
    let consumed = stats(&mut client, "GROUP_GET_NUMS", "orders@billing");
    assert!(consumed["statsMinute"]["sum"].as_i64().is_some_and(|sum| sum >= 15), "{consumed}");
    for (name, key) in [("TOPIC_PUT_NUMS", "none"), ("TOPIC_PUT_NUMS", "orders@billing"), ("TOPIC_PUT_SIZE", "orders")]
    {
        let refused = stats(&mut client, name, key);
        let text = refused.as_str().expect("a refusal");
        assert!(text.starts_with(&format!("The stats <{name}> <{key}> not exist")), "{text}");
    }
}

#[test]
fn a_reset_reaches_who_owns_the_queue_though_its_last_owner_still_has_a_pull_waiting() {
    let bench = Bench::new();
    let (mut producer, mut before, mut owner) = (bench.client(), bench.client(), bench.client());
    for text in ["1", "2", "3"] {
        producer.ask_well(send("orders", text));
    }
    before.give(&[heartbeat("one", "billing", "orders", "*", 1)]);
    assert_eq!(before.give(&[held_pull("billing", "orders", 3)]), []);
    // A member joins and gets the queue; what the other asked for waits at the broker for up to 15 s more, and it drops the answer.
    owner.give(&[heartbeat("two", "billing", "orders", "*", 1)]);
    before.hear();
    assert_eq!(owner.give(&[held_pull("billing", "orders", 3)]), []);
    let fields = [("topic", "orders"), ("group", "billing"), ("timestamp", "0"), ("isForce", "true"), ("offset", "0")];
    producer.ask_well(ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields));
    let dropped = before.hear();
    let heard = owner.hear();
    for heard in [dropped, heard] {
        assert_eq!(
            heard.iter().map(|reply| (reply.code, reply.number("nextBeginOffset"))).collect::<Vec<_>>(),
            [(response::PULL_OFFSET_MOVED, 0)]
        );
    }
    owner.ask_well(commit(3));
    let committed = || bench.broker.offsets.committed("orders", "billing", QueueId(0));
    assert_eq!(committed(), Some(0), "it is of before the reset");
    assert_eq!(owner.ask_well(pull("billing", "orders", 0)).bodies(), ["1", "2", "3"]);
    owner.ask_well(commit(1));
    assert_eq!(committed(), Some(1));
}

#[test]
fn offsets_are_copied_to_groups_only() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    client.ask_well(commit(1));
    for name in ["x".repeat(900_000).as_str(), "a b", "", "a@b"] {
        let fields = [("srcGroup", "billing"), ("destGroup", name), ("topic", "orders"), ("offline", "true")];
        let reply = client.ask(ask(request::CLONE_GROUP_OFFSET, &fields));
        let kept = bench.broker.offsets.of("orders", name);
        assert!(reply.code != 0 && kept.is_empty(), "{} for a name of {} bytes", reply.code, name.len());
    }
}
