//! Promises to administrators: figures of the broker and its groups are true, and settings are taken as they are or refused.

use std::sync::Arc;

use base::offset::Watermark;
use base::{LogOffset, Now};
use broker::{Replica, ReplicaList};
use format::record::Record;
use serde_json::{Value, json};
use storage::disk::{Disk, MemoryDisk};
use testkit::{GivenSettings, ManualHost, broker_options};
use wire::rocketmq::body::client::{Heartbeat, ProducerData};
use wire::rocketmq::code::{request, response};

use crate::bench::{Bench, START};
use crate::client::{Ask, Client, Reply, ask, heartbeat, pull, send};

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
        assert_eq!((&table["runtime"], &table["bootTimestamp"]), (&text.into(), &START.wall.0.to_string().into()));
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
    client.wait(24 * 3_600_000);
    bench.broker.expire(client.now);
    client.ask_well(send("orders", "the next day"));
    let table = runtime(&mut client);
    for (name, now, this_morning) in [("Put", "21", "20"), ("Get", "30", "30")] {
        assert_eq!(table[format!("msg{name}TotalTodayNow")], now);
        assert_eq!(table[format!("msg{name}TotalTodayMorning")], this_morning);
        assert_eq!(table[format!("msg{name}TotalYesterdayMorning")], "0");
    }
}

#[test]
fn the_bounds_of_the_log_and_the_room_on_its_disk_are_told() {
    let memory = MemoryDisk::new();
    let bench = Bench::with(|setup| setup.store.disk = Disk::new(memory.clone()));
    let mut client = bench.client();
    client.ask_well(send("orders", "on the disk"));
    bench.sync();
    let synced = bench.broker.durability.reached(Watermark::Durable).0;
    client.ask_well(send("orders", "written"));
    let end = bench.broker.durability.reached(Watermark::Written).0;
    assert!(0 < synced && synced < end);
    let (used, _) = bench.broker.store().disk_usage().expect("is told");
    memory.set_capacity(4 * used);
    let table = runtime(&mut client);
    for (name, value) in [
        ("commitLogMinOffset", "0"),
        ("commitLogMaxOffset", &end.to_string()),
        ("remainHowManyDataToFlush", &format!("{} B", end - synced)),
        ("earliestMessageTimeStamp", &START.wall.0.to_string()),
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
    bench.broker.delivery.deliver_due(client.now);
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
    for queues in ["readQueueNums", "writeQueueNums"] {
        let reply = client.ask(make_topic("others").with(queues, -1));
        assert!(reply.remark.contains("topic [others]: -1 queues"), "{}", reply.remark);
    }
    assert!(bench.broker.catalog.topic("others").is_none());
    // The broker's own stay as they are.
    for reserved in ["TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "rmq_sys_wheel_timer"] {
        assert_eq!(client.ask(make_topic(reserved)).code, response::NO_PERMISSION, "{reserved}");
    }
}

/// `orders` with a message at START in queue 0 and two more there, one and two seconds later; `shipping` consumes it by its offsets
/// and `billing`, which wants messages with the tag `a`, by its member `one`.
fn consumed(bench: &Bench) -> (Client, Client) {
    let mut client = bench.client();
    for tag in ["a", "b", "a"] {
        client.ask_well(send("orders", "x").with("i", format!("TAGS\u{1}{tag}\u{2}")));
        client.wait(1000);
    }
    client.ask_well(
        ask(request::UPDATE_CONSUMER_OFFSET, &[("consumerGroup", "shipping"), ("topic", "orders")])
            .with("queueId", 0)
            .with("commitOffset", 2),
    );
    let mut member = bench.client();
    let replies = member.give(&[heartbeat("one", "billing", "orders", "a", 7)]);
    assert!(replies.iter().any(|reply| reply.is_response && reply.code == response::SUCCESS), "{replies:?}");
    (client, member)
}

fn of_group(code: i32, name: &str, group: &str) -> Ask {
    ask(code, &[(name, group), ("topic", "orders")])
}

#[test]
fn who_consumes_what_is_told_whether_by_offsets_or_by_subscription() {
    let bench = Bench::new();
    let (mut client, _member) = consumed(&bench);
    client.ask_well(send("returns", "x"));
    let mut list = |asked: Ask, name: &str| client.ask_well(asked).json()[name].take();
    let groups = ask(request::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "orders")]);
    assert_eq!(list(groups.clone(), "groupList"), json!(["billing", "shipping"]));
    assert_eq!(list(groups.with("topic", "returns"), "groupList"), json!([]));
    let topics = |group: &str| of_group(request::QUERY_TOPICS_BY_CONSUMER, "group", group);
    assert_eq!(list(topics("shipping"), "topicList"), json!(["orders"]));
    assert_eq!(list(topics("billing"), "topicList"), json!(["orders"]));
    assert_eq!(list(topics("nobody"), "topicList"), json!([]));

    let wanted = list(of_group(request::QUERY_SUBSCRIPTION_BY_CONSUMER, "group", "billing"), "subscriptionData");
    assert_eq!(
        [&wanted["topic"], &wanted["subString"], &wanted["subVersion"]],
        [&json!("orders"), &json!("a"), &json!(7)]
    );
    let unknown = list(of_group(request::QUERY_SUBSCRIPTION_BY_CONSUMER, "group", "shipping"), "subscriptionData");
    assert_eq!(unknown, Value::Null);

    let asked = of_group(request::GET_CONSUMER_CONNECTION_LIST, "consumerGroup", "billing");
    let told = client.ask_well(asked.clone()).json();
    let connection = json!({"clientId": "one", "clientAddr": "10.0.0.1:5000", "language": "JAVA", "version": 493});
    assert_eq!(told["connectionSet"], json!([connection]));
    assert_eq!(told["subscriptionTable"]["orders"]["subString"], "a");
    let rules = ["consumeType", "messageModel", "consumeFromWhere"].map(|name| told[name].as_str());
    assert_eq!(rules, ["CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"].map(Some));
    assert_eq!(client.ask(asked.with("consumerGroup", "shipping")).code, response::CONSUMER_NOT_ONLINE);

    let producers = vec![ProducerData { group_name: "makers".to_owned() }];
    let heartbeat = Heartbeat { client_id: "two".to_owned(), producers, ..Heartbeat::default() };
    client.ask_well(ask(request::HEART_BEAT, &[]).body(serde_json::to_vec(&heartbeat).expect("JSON")));
    let all = client.ask_well(ask(request::GET_ALL_PRODUCER_INFO, &[])).json()["data"].take();
    let producer = &all["makers"][0];
    assert_eq!([&producer["clientId"], &producer["remoteIP"]], [&json!("two"), &json!("10.0.0.1:5000")]);
    assert_eq!(producer["lastUpdateTimestamp"], json!(client.now.wall.0));
}

#[test]
fn from_when_on_messages_are_kept_and_how_late_a_group_is_can_be_asked() {
    let bench = Bench::new();
    let (mut client, _member) = consumed(&bench);
    let at = |seconds: u64| START.wall.plus_ms(seconds * 1000).0;
    assert_eq!(client.now.wall.0, at(3));
    let spans = client.ask_well(of_group(request::QUERY_CONSUME_TIME_SPAN, "group", "shipping")).json();
    let of_queue = |queue: usize| {
        let span = &spans["consumeTimeSpanSet"][queue];
        assert_eq!(span["messageQueue"], json!({"brokerName": "broker-a", "queueId": queue, "topic": "orders"}));
        ["minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime"].map(|name| span[name].as_u64().expect("told"))
    };
    // The next message is the third, which came two seconds after the first.
    assert_eq!(of_queue(0), [at(0), at(2), at(1), 1000]);
    assert_eq!(of_queue(1), [0; 4]);

    let stats = client.ask_well(ask(request::GET_TOPIC_STATS_INFO, &[("topic", "orders")]));
    let told = ["lastUpdateTimestamp", "minOffset", "maxOffset"].map(|name| number(&stats, name));
    assert_eq!(told, [at(2) as f64, 0.0, 3.0]);
    for (queue, since) in [(0, at(0) as i64), (1, -1)] {
        let asked = ask(request::GET_EARLIEST_MESSAGE_STORE_TIME, &[("topic", "orders")]).with("queueId", queue);
        assert_eq!(client.ask_well(asked).number("timestamp"), since);
    }
}

#[test]
fn a_look_at_a_queue_shows_its_entries_and_which_of_them_a_group_wants() {
    let bench = Bench::new();
    let (mut client, _member) = consumed(&bench);
    let asked =
        ask(request::QUERY_CONSUME_QUEUE, &[("topic", "orders"), ("queueId", "0"), ("consumerGroup", "billing")]);
    let look = |client: &mut Client, index: i64, count: i32| {
        let told = client.ask_well(asked.clone().with("index", index).with("count", count)).json();
        assert_eq!((&told["minQueueIndex"], &told["maxQueueIndex"]), (&json!(0), &json!(3)));
        assert_eq!(told["subscriptionData"]["subString"], "a");
        let entries = told["queueData"].as_array().expect("entries").clone();
        let one =
            |entry: &Value| (entry["physicOffset"].as_i64().expect("told"), entry["eval"].as_bool().expect("told"));
        entries.iter().map(one).collect::<Vec<_>>()
    };
    let all = look(&mut client, 0, 10);
    assert_eq!(all.iter().map(|(_, is_wanted)| *is_wanted).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(look(&mut client, 1, 1), all[1..2]);
    assert_eq!(look(&mut client, -1, 2), all[..2]);
    let viewed = client.ask_well(ask(request::VIEW_MESSAGE_BY_ID, &[]).with("offset", all[2].0));
    assert_eq!(Record::decode(&viewed.body).expect("a record").queue_offset.0, 2);
}

#[test]
fn a_groups_settings_are_kept_as_they_came_until_it_is_removed() {
    let bench = Bench::new();
    let (mut client, _member) = consumed(&bench);
    let put = ask(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[]);
    client.ask_well(put.clone().body(r#"{"groupName":"shipping","retryMaxTimes":3,"consumeEnable":false}"#));
    let refused = client.ask(put.body(r#"{"groupName":"no group"}"#));
    assert_ne!(refused.code, response::SUCCESS);
    let list = r#"{"groupConfigList":[{"groupName":"first","retryQueueNums":2},{"groupName":"second"}]}"#;
    client.ask_well(ask(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP_LIST, &[]).body(list));
    let get = |group: &str| ask(request::GET_SUBSCRIPTION_GROUP_CONFIG, &[("group", group)]);
    let told = client.ask_well(get("shipping")).json();
    assert_eq!([&told["retryMaxTimes"], &told["consumeEnable"]], [&json!(3), &json!(false)]);
    assert_eq!(client.ask_well(get("first")).json()["retryQueueNums"], 2);
    let all =
        client.ask_well(ask(request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG, &[])).json()["subscriptionGroupTable"].take();
    let names: Vec<_> = all.as_object().expect("a table").keys().cloned().collect();
    assert_eq!(names, ["billing", "first", "second", "shipping"]);

    // Removed and made again, it goes on where it was, unless its offsets are to go too.
    let committed = |client: &mut Client| {
        let offsets = client.ask_well(ask(request::GET_ALL_CONSUMER_OFFSET, &[])).json();
        offsets["offsetTable"]["orders@shipping"]["0"].as_i64()
    };
    for (forgets, left) in [(vec![], Some(2)), (vec![("cleanOffset", "true")], None)] {
        let delete = Ask { code: request::DELETE_SUBSCRIPTION_GROUP, ..ask(0, &forgets) };
        client.ask_well(delete.with("groupName", "shipping"));
        assert_eq!(client.ask(get("shipping")).code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
        assert_eq!(committed(&mut client), left);
    }
}

#[test]
fn topics_are_listed_with_their_settings_and_gone_once_they_are_removed() {
    let bench = Bench::new();
    let mut client = bench.client();
    let list =
        r#"{"topicConfigList":[{"topicName":"orders","readQueueNums":2,"writeQueueNums":1},{"topicName":"returns"}]}"#;
    client.ask_well(ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[]).body(list));
    client.ask_well(send("orders", "old"));
    let all = |client: &mut Client| {
        client.ask_well(ask(request::GET_ALL_TOPIC_CONFIG, &[])).json()["topicConfigTable"].take()
    };
    let table = all(&mut client);
    assert_eq!([&table["orders"]["readQueueNums"], &table["orders"]["writeQueueNums"]], [&json!(2), &json!(1)]);
    assert_eq!(table["returns"]["topicName"], "returns");
    let system = client.ask_well(ask(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, &[])).json()["topicList"].take();
    let system = system.as_array().expect("a list").clone();
    assert!(system.contains(&json!("TBW102")) && !system.contains(&json!("orders")), "{system:?}");

    let delete = |name: &str| ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", name)]);
    for name in ["", " ", "TBW102"] {
        assert_ne!(client.ask(delete(name)).code, response::SUCCESS, "{name:?}");
    }
    client.ask_well(delete("orders"));
    assert_eq!(
        (all(&mut client)["orders"].take(), all(&mut client)["TBW102"]["topicName"].take()),
        (Value::Null, json!("TBW102"))
    );
    assert_eq!(client.ask(pull("billing", "orders", 0)).code, response::TOPIC_NOT_EXIST);
    client.ask_well(send("orders", "new"));
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies(), ["new"]);
}

#[test]
fn attributes_of_a_topic_are_changed_one_by_one() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut attributes = |changes: &str| {
        client.ask_well(make_topic("orders").with("attributes", changes));
        client.ask_well(ask(request::GET_TOPIC_CONFIG, &[("topic", "orders")])).json()["attributes"].take()
    };
    assert_eq!(attributes("+a=1,+b=2"), json!({"a": "1", "b": "2"}));
    assert_eq!(attributes(""), json!({"a": "1", "b": "2"}));
    assert_eq!(attributes("-a, +b=3"), json!({"b": "3"}));
    for wrong in ["a=1", "+a", "a"] {
        let reply = client.ask(make_topic("orders").with("attributes", wrong));
        assert!(reply.remark.contains("is neither +key=value nor -key"), "{wrong}: {}", reply.remark);
    }
}

#[test]
fn settings_and_delivery_offsets_are_listed() {
    let settings = Arc::new(GivenSettings::new(&[("storage.flush", "sync")]));
    let bench = Bench::with(|setup| setup.session.settings = settings.clone());
    let mut client = bench.client();
    let config = client.ask_well(ask(request::GET_BROKER_CONFIG, &[]));
    assert_eq!(String::from_utf8(config.body).expect("text"), "retention.age=72h\nstorage.flush=sync\n");
    client.ask_well(ask(request::UPDATE_BROKER_CONFIG, &[]).body(b"retention.age=12h\n".to_vec()));
    let config = client.ask_well(ask(request::GET_BROKER_CONFIG, &[]));
    assert_eq!(String::from_utf8(config.body).expect("text"), "retention.age=12h\nstorage.flush=sync\n");
    for (wrong, why) in [
        ("storage.flush=async", "storage.flush cannot change"),
        ("x", "not of the form name=value"),
        ("\u{1}=\n=", "cannot change"),
    ] {
        let reply = client.ask(ask(request::UPDATE_BROKER_CONFIG, &[]).body(wrong.as_bytes().to_vec()));
        assert!(reply.code == response::SYSTEM_ERROR && reply.remark.contains(why), "{wrong}: {reply:?}");
    }
    client.ask_well(send("orders", "later").with("i", "DELAY\u{1}2\u{2}"));
    client.wait(5000);
    bench.broker.delivery.deliver_due(client.now);
    bench.sync();
    let delayed = client.ask_well(ask(request::GET_ALL_DELAY_OFFSET, &[])).json();
    assert_eq!(delayed["offsetTable"]["2"], 1, "{delayed}");
}

/// A group is made while the disk is full, so that its members can read; whoever asks for it is not told yet that it is kept.
#[test]
fn a_group_that_waits_for_room_on_the_disk_is_not_answered_for() {
    let memory = MemoryDisk::new();
    let disk = Disk::new(memory.clone());
    let bench = Bench::with(|setup| setup.store.disk = disk.clone());
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    memory.set_capacity(disk.usage(bench.directory()).expect("usage").0);
    let _ = bench.broker.checkpoint(START);
    client.give(&[heartbeat("client", "billing", "orders", "*", 1)]);
    let settings = bench.broker.catalog.group("billing").expect("whoever reads is served by a full disk too");
    let body = serde_json::to_vec(&*settings).expect("JSON");
    let put = ask(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[]).body(body);
    assert_eq!(client.ask(put.clone()).code, response::SYSTEM_ERROR);
    memory.set_capacity(u64::MAX);
    bench.broker.store().prepare_next_segment().expect("there is room");
    assert_eq!(client.ask(put).code, response::SUCCESS);
    let store = storage::Options {
        disk: Disk::new(memory.after_restart_of_the_machine()),
        ..testkit::store_options(bench.directory())
    };
    let broker = testkit::open_broker(broker_options(), store, Arc::new(ManualHost::default()), START).expect("opens");
    assert!(broker.catalog.group("billing").is_some());
}

#[derive(Debug)]
struct TwoReplicas;

impl ReplicaList for TwoReplicas {
    fn all(&self) -> Vec<Replica> {
        let of = |host: u8, end| Replica {
            address: ([10, 0, 0, host], 5000).into(),
            end: LogOffset(end),
            sent: LogOffset(end + 10),
            sent_per_second: 77,
            caught_up: Now::default(),
        };
        vec![of(2, 4000), of(3, 0)]
    }
}

#[test]
fn replicas_are_shown_with_what_they_lack() {
    let bench = Bench::with(|setup| setup.broker.replica_gap_max = 5000);
    let mut client = bench.client();
    let shown = |client: &mut Client| client.ask_well(ask(request::GET_BROKER_HA_STATUS, &[])).json();
    let before = shown(&mut client);
    assert_eq!((&before["master"], &before["haConnectionInfo"]), (&json!(true), &json!([])));
    bench.broker.durability.replicas().listed_by(Box::new(TwoReplicas));
    client.ask_well(send("orders", &"x".repeat(4000)));
    let end = bench.broker.durability.reached(Watermark::Written).0;
    assert!((5000..9000).contains(&end), "{end}");
    let all = shown(&mut client);
    assert_eq!((&all["masterCommitLogMaxOffset"], &all["inSyncSlaveNums"]), (&json!(end), &json!(1)));
    let first = json!({
        "addr": "10.0.0.2:5000",
        "slaveAckOffset": 4000,
        "diff": end - 4000,
        "inSync": true,
        "transferredByteInSecond": 77,
        "transferFromWhere": 4010,
    });
    assert_eq!((&all["haConnectionInfo"][0], &all["haConnectionInfo"][1]["inSync"]), (&first, &json!(false)));
}
