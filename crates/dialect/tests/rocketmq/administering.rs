//! Promises to administrators: figures of the broker and its groups are true, and settings are taken as they are or refused.

use base::offset::Watermark;
use serde_json::Value;
use storage::disk::{Disk, MemoryDisk};
use wire::rocketmq::code::{request, response};

use crate::bench::{Bench, START};
use crate::client::{Ask, Client, Reply, ask, pull, send};

/// The table that `brokerStatus` prints.
fn runtime(client: &mut Client) -> Value {
    let table = client.ask_well(ask(request::GET_BROKER_RUNTIME_INFO, &[])).json()["table"].take();
    assert!(table.is_object(), "{table}");
    table
}

fn make_topic(name: &str) -> Ask {
    let fields = [
        ("topic", name),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "4"),
        ("writeQueueNums", "3"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("order", "false"),
    ];
    ask(request::UPDATE_AND_CREATE_TOPIC, &fields)
}

/// A number of a body that is JSON but for its keys, which are objects.
fn number(reply: &Reply, name: &str) -> f64 {
    let text = std::str::from_utf8(&reply.body).expect("text");
    let rest = text.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name} is not in {text}"));
    let digits: String = rest.chars().take_while(|mark| mark.is_ascii_digit() || *mark == '.').collect();
    digits.parse().expect("a number")
}

#[test]
fn how_long_the_broker_runs_is_told_in_days_hours_minutes_and_seconds() {
    let bench = Bench::new();
    let mut client = bench.client();
    for (seconds, text) in [
        (0, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (59, "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"),
        (3600 + 61, "[ 0 days, 1 hours, 1 minutes, 1 seconds ]"),
        (2 * 86_400 - 1, "[ 1 days, 23 hours, 59 minutes, 59 seconds ]"),
        (100 * 86_400 + 7 * 3600 + 8 * 60 + 9, "[ 100 days, 7 hours, 8 minutes, 9 seconds ]"),
    ] {
        client.now = START.plus_ms(seconds * 1000 + 999);
        let table = runtime(&mut client);
        assert_eq!((&table["runtime"], &table["bootTimestamp"]), (&text.into(), &START.0.to_string().into()));
    }
}

#[test]
fn what_was_stored_and_handed_out_is_told_in_all_and_a_second() {
    let bench = Bench::new();
    let mut client = bench.client();
    bench.broker.expire(client.now);
    (0..20).for_each(|_| drop(client.ask_well(send("orders", "four"))));
    let ten = client.ask_well(pull("billing", "orders", 10)).body.len();
    (0..2).for_each(|_| drop(client.ask_well(pull("billing", "orders", 10))));
    client.wait(10_000);
    bench.broker.expire(client.now);
    client.wait(5000);
    bench.broker.expire(client.now);
    let table = runtime(&mut client);
    for (name, value) in [
        ("putMessageTimesTotal", "20"),
        ("putMessageSizeTotal", &(2 * ten).to_string()),
        ("putMessageAverageSize", &format!("{:.1}", ten as f64 / 10.0)),
        ("putMessageFailedTimes", "0"),
        ("msgPutTotalTodayNow", "20"),
        ("msgGetTotalTodayNow", "30"),
        // Nothing came within the last ten seconds.
        ("putTps", "0.0000 1.3333 1.3333"),
        ("getTotalTps", "0.0000 2.0000 2.0000"),
    ] {
        assert_eq!(table[name], *value, "{name}");
    }
}

#[test]
fn the_bounds_of_the_log_and_the_room_on_its_disk_are_told() {
    let memory = MemoryDisk::new();
    let bench = Bench::with(|setup| setup.store.disk = Disk::new(memory.clone()));
    let mut client = bench.client();
    client.ask_well(send("orders", "on the disk"));
    bench.sync();
    let synced = bench.broker.reached(Watermark::Durable).0;
    client.ask_well(send("orders", "written"));
    let end = bench.broker.reached(Watermark::Appended).0;
    assert!(0 < synced && synced < end);
    let (used, _) = bench.broker.store().disk_usage().expect("is told");
    memory.set_capacity(4 * used);
    let table = runtime(&mut client);
    for (name, value) in [
        ("commitLogMinOffset", "0"),
        ("commitLogMaxOffset", &end.to_string()),
        ("remainHowManyDataToFlush", &format!("{} B", end - synced)),
        ("earliestMessageTimeStamp", &START.0.to_string()),
        ("commitLogDiskRatio", "0.2500"),
        ("consumeQueueDiskRatio", "0.2500"),
    ] {
        assert_eq!(table[name], *value, "{name}");
    }
}

#[test]
fn how_far_each_delay_level_is_delivered_is_told() {
    let bench = Bench::new();
    let mut client = bench.client();
    for level in [1, 1, 2, 1, 2] {
        client.ask_well(send("orders", "later").with("i", format!("DELAY\u{1}{level}\u{2}")));
    }
    let progress = |client: &mut Client| {
        let table = runtime(client);
        [1, 2, 3].map(|level| table[format!("scheduleMessageOffset_{level}")].as_str().map(str::to_owned))
    };
    let told = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(progress(&mut client), told(["0,3", "0,2", "0,0"]));
    client.wait(1000);
    bench.broker.deliver_due(client.now);
    assert_eq!(progress(&mut client), told(["3,3", "0,2", "0,0"]));
}

#[test]
fn what_groups_have_not_consumed_is_summed_over_their_queues_topics_and_groups() {
    let bench = Bench::new();
    let mut client = bench.client();
    let commit = |client: &mut Client, group: &str, topic: &str, queue: i32, offset: i64| {
        let named = [("consumerGroup", group), ("topic", topic)];
        let asked = ask(request::UPDATE_CONSUMER_OFFSET, &named).with("queueId", queue).with("commitOffset", offset);
        client.ask_well(asked);
    };
    for (topic, queue, count) in [("orders", 0, 5), ("orders", 1, 7), ("returns", 0, 11)] {
        (0..count).for_each(|_| drop(client.ask_well(send(topic, "x").with("e", queue))));
    }
    for group in ["billing", "shipping"] {
        bench.make_group(group, Default::default());
        // The consumers are at the end of the queues, and have not handled it all.
        for (topic, queue, committed, fetched) in [("orders", 0, 1, 5), ("orders", 1, 4, 6), ("returns", 0, 2, 2)] {
            let wanted = pull(group, topic, committed).with("queueId", queue).with("maxMsgNums", fetched - committed);
            if fetched > committed {
                client.ask_well(wanted);
            }
            commit(&mut client, group, topic, queue, committed);
        }
    }
    let all = client.ask_well(ask(request::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")]));
    let (unconsumed, on_their_way) = ((5 - 1) + (7 - 4) + (11 - 2), (5 - 1) + (6 - 4));
    assert_eq!(number(&all, "totalDiff"), f64::from(2 * unconsumed));
    assert_eq!(number(&all, "totalInflightDiff"), f64::from(2 * on_their_way));

    // Messages a second are those of all topics together.
    let rate = |client: &mut Client, topic: &str| {
        let asked = ask(request::GET_CONSUME_STATS, &[("consumerGroup", "billing"), ("topic", topic)]);
        number(&client.ask_well(asked), "consumeTps")
    };
    bench.broker.expire(client.now);
    client.wait(10_000);
    commit(&mut client, "billing", "orders", 0, 3);
    commit(&mut client, "billing", "returns", 0, 7);
    assert_eq!([rate(&mut client, "orders"), rate(&mut client, "returns"), rate(&mut client, "")], [0.2, 0.5, 0.7]);
}

#[test]
fn a_topic_is_made_as_it_was_asked_for_or_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    for perm in 0..=7 {
        client.ask_well(make_topic("orders").with("perm", perm));
        let topic = client.ask_well(ask(request::GET_TOPIC_CONFIG, &[("topic", "orders")])).json();
        let told = ["perm", "readQueueNums", "writeQueueNums"].map(|name| topic[name].as_i64());
        assert_eq!(told, [Some(perm), Some(4), Some(3)]);
    }
    for perm in [8, 9, 14, -1, i32::MIN] {
        let reply = client.ask(make_topic("others").with("perm", perm));
        assert_eq!(reply.code, response::SYSTEM_ERROR, "{perm}");
        assert!(reply.remark.contains(&format!("the permission {perm} of topic [others]")), "{}", reply.remark);
    }
    assert!(bench.broker.catalog().topic("others").is_none());
}
