//! The admin API of a process with several brokers: each has topics of its own, and what is asked of one changes no other.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;

use base::{GroupName, TopicName};
use broker::Broker;
use format::document::TopicDocument;
use serde_json::{Value, json};
use support::{START, serve};
use testkit::{ManualHost, broker_options, open_broker, store_options};

/// A console with two brokers behind it, a and b.
struct Console {
    address: SocketAddr,
    brokers: [Arc<Broker>; 2],
    _hosts: [Arc<ManualHost>; 2],
    _scratch: tempfile::TempDir,
}

impl Console {
    async fn start() -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let hosts = [(); 2].map(|()| Arc::new(ManualHost::default()));
        let open = |name: &str, host: &Arc<ManualHost>| {
            let options = broker::Options { broker_name: name.to_owned(), ..broker_options() };
            let store = store_options(&scratch.path().join(name));
            let broker = Arc::new(open_broker(options, store, host.clone(), START).expect("it opens"));
            host.serve(&broker);
            broker
        };
        let brokers = [open("a", &hosts[0]), open("b", &hosts[1])];
        let address = serve(brokers.to_vec(), None).await;
        Self { address, brokers, _hosts: hosts, _scratch: scratch }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        support::ask(self.address, method, path, body).await
    }

    /// Makes a topic at one broker, or alters it there, as `mqadmin updateTopic -b` does.
    fn put(&self, broker: usize, name: &str, queues: u32, permission: u32) {
        let (read_queue_nums, write_queue_nums) = (queues, queues);
        let settings =
            TopicDocument { read_queue_nums, write_queue_nums, perm: permission, ..TopicDocument::default() };
        self.brokers[broker].catalog.put_topic(TopicName::trusted(name), settings, START).expect("made");
    }

    /// Queues and permission of a topic at each broker.
    fn settings(&self, name: &str) -> [Option<(u32, u32)>; 2] {
        self.brokers.each_ref().map(|broker| {
            let topic = broker.catalog.topic(name)?;
            Some((topic.settings.write_queue_nums, topic.settings.perm))
        })
    }
}

#[tokio::test]
async fn what_is_not_altered_stays_at_each_broker_as_it_is_there() {
    let console = Console::start().await;
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 4}))).await.0, 200);
    assert_eq!(console.settings("orders"), [Some((4, 6)); 2]);
    console.put(1, "orders", 4, 4);
    let (status, told) = console.ask("PUT", "/topics/orders", Some(json!({"queues": 6}))).await;
    assert_eq!((status, console.settings("orders")), (200, [Some((6, 6)), Some((6, 4))]), "{told}");
    let shown = |told: &Value| {
        let each = told["brokers"].as_array().expect("a list").iter();
        each.map(|one| format!("{} {} {}", one["name"], one["write_queues"], one["permission"])).collect::<Vec<_>>()
    };
    let each = [r#""a" 6 "rw""#, r#""b" 6 "r""#];
    assert_eq!(shown(&told), each);
    assert_eq!(shown(&console.ask("GET", "/topics/orders", None).await.1), each);
}

#[tokio::test]
async fn a_topic_is_altered_where_it_is_and_made_nowhere_else() {
    let console = Console::start().await;
    console.put(1, "orders", 4, 6);
    let (status, told) = console.ask("POST", "/topics", Some(json!({"name": "orders"}))).await;
    assert!(status == 409 && told["error"].as_str().is_some_and(|text| text.contains("at [b] alone")), "{told}");
    assert_eq!(console.ask("PUT", "/topics/orders", Some(json!({"permission": "r"}))).await.0, 200);
    assert_eq!(console.settings("orders"), [None, Some((4, 4))]);
}

#[tokio::test]
async fn messages_of_a_queue_are_looked_for_where_that_queue_is() {
    let console = Console::start().await;
    console.put(0, "orders", 8, 6);
    console.put(1, "orders", 2, 6);
    for (broker, queue) in [("a", 7), ("a", 0), ("b", 0)] {
        let new = json!({"body": "m", "queue": queue, "broker": broker});
        assert_eq!(console.ask("POST", "/topics/orders/messages", Some(new)).await.0, 200);
    }
    for (query, brokers) in [
        ("queue=7", &["a"][..]),
        ("queue=0", &["a", "b"]),
        ("queue=0&broker=b", &["b"]),
        ("queue=0&offset=0&broker=a", &["a"]),
        ("queue=1&broker=b", &[]),
    ] {
        let (status, told) = console.ask("GET", &format!("/topics/orders/messages?{query}"), None).await;
        let items = told["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(status == 200 && items.iter().map(|item| &item["broker"]).eq(brokers), "{query}: {told}");
    }
    for (query, why) in [
        ("queue=8", "topic 'orders' has no queue 8 at [a, b]"),
        ("queue=7&broker=b", "topic 'orders' has no queue 7 at [b]"),
        ("queue=0&broker=c", "no broker 'c' has the topic 'orders' here: name one of [a, b]"),
    ] {
        let (status, told) = console.ask("GET", &format!("/topics/orders/messages?{query}"), None).await;
        assert_eq!((status, &told["error"]), (404, &json!(why)), "{query}");
    }
}

#[tokio::test]
async fn a_reset_that_finds_nothing_says_what_is_not_there() {
    let console = Console::start().await;
    console.put(0, "orders", 8, 6);
    console.put(1, "orders", 2, 6);
    console.brokers[0].catalog.group_for_use(&GroupName::trusted("billing"), START).expect("made");
    let reset = |asked: Value| console.ask("POST", "/groups/billing/reset", Some(asked));
    for (asked, status, why) in [
        (json!({"queue": 7}), 400, "several brokers have the topic 'orders': name one of [a, b]"),
        (json!({"broker": "nope"}), 404, "no broker 'nope' has the topic 'orders' here: name one of [a, b]"),
        (json!({"broker": "b"}), 404, "group 'billing' is not at [b], where the topic 'orders' is"),
        (json!({"broker": "a", "queue": 8}), 404, "topic 'orders' has no queue 8 at [a]"),
    ] {
        let mut asked = asked;
        (asked["topic"], asked["to"]) = (json!("orders"), json!("end"));
        let (told, answer) = reset(asked).await;
        assert_eq!((told, &answer["error"]), (status, &json!(why)));
    }
    let (status, told) = reset(json!({"topic": "orders", "to": "end", "broker": "a", "queue": 7})).await;
    assert_eq!((status, told["items"].as_array().map(Vec::len)), (200, Some(1)), "{told}");
}
