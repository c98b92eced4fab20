//! The admin API over its own socket: what is asked for is done, told and kept, and nobody else gets in.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{GroupName, Permission, QueueId};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use broker::{Broker, RunningOptions};
use console::Token;
use serde_json::{Value, json};
use support::{START, serve};
use testkit::{ManualHost, broker_options, open_broker, store_options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A console with a broker behind it.
struct Console {
    address: SocketAddr,
    broker: Arc<Broker>,
    _host: Arc<ManualHost>,
    _scratch: tempfile::TempDir,
}

impl Console {
    async fn start() -> Self {
        Self::of(dialect::amqp::model_options()).await
    }

    async fn of(model: broker::ModelOptions) -> Self {
        Self::with(model, None).await
    }

    async fn with(model: broker::ModelOptions, token: Option<Token>) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let host = Arc::new(ManualHost::default());
        let options = broker::Options { model, ..broker_options() };
        let broker = open_broker(options, store_options(scratch.path()), host.clone(), START).expect("it opens");
        let broker = Arc::new(broker);
        host.serve(&broker);
        let address = serve(vec![broker.clone()], token).await;
        Self { address, broker, _host: host, _scratch: scratch }
    }

    /// Status and JSON of an answer.
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        support::ask(self.address, method, path, body).await
    }

    async fn send(&self, request: &str) -> (u16, Value) {
        support::send(self.address, request).await
    }

    /// One message more in a queue.
    fn publish(&self, topic: &str, queue: u32) {
        self.publish_with(topic, queue, b"m", b"");
    }

    fn publish_with(&self, topic: &str, queue: u32, body: &[u8], properties: &[u8]) {
        let topic = self.broker.catalog.topic(topic).expect("the topic is there");
        let mut batch = self.broker.publisher.begin_batch(0, START);
        let message = broker::Message {
            queue: Some(QueueId(queue)),
            body,
            properties,
            flag: 0,
            system_flag: 0,
            born_timestamp: START.wall,
            born_host: self.address,
            delivery_count: 0,
        };
        self.broker.publisher.add(&mut batch, &topic, &message).expect("taken");
        self.broker.publisher.append(batch, START).expect("appended");
    }

    /// Changes what clients may do.
    fn permit(&self, permission: Permission) {
        let options =
            RunningOptions { permission, message_size_max: 4096, auto_create_topics: true, auto_create_groups: true };
        self.broker.change(&options, START);
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        let (status, mut list) = self.ask("GET", path, None).await;
        assert_eq!(status, 200, "{list}");
        list["items"].take().as_array().expect("a list").clone()
    }
}

#[tokio::test]
async fn users_are_made_changed_and_removed_and_their_passwords_are_told_to_nobody() {
    let console = Console::start().await;
    let access = &console.broker.model.access;
    let new = json!({"name": "alice", "password": "secret", "tags": ["monitoring"]});
    assert_eq!(console.ask("POST", "/users", Some(new.clone())).await.0, 200);
    assert!(access.is_password("alice", b"secret"));
    assert_eq!(console.ask("POST", "/users", Some(new)).await, (409, json!({"error": "user 'alice' already exists"})));
    assert_eq!(
        console.items("/users").await,
        [
            json!({"name": "alice", "tags": ["monitoring"], "has_password": true, "connections_max": null, "channels_max": null}),
            json!({"name": "guest", "tags": ["administrator"], "has_password": true, "connections_max": null, "channels_max": null}),
        ]
    );
    assert_eq!(console.ask("PUT", "/users/alice/password", Some(json!({"password": "other"}))).await.0, 200);
    assert!(access.is_password("alice", b"other") && !access.is_password("alice", b"secret"));
    assert_eq!(console.ask("PUT", "/users/alice/tags", Some(json!({"tags": []}))).await.0, 200);
    assert_eq!(access.user("alice").expect("there").tags, Vec::<String>::new());
    assert_eq!(
        console.ask("DELETE", "/users/alise", None).await,
        (404, json!({"error": "user 'alise' not found", "nearest": ["alice"]}))
    );
    assert_eq!(console.ask("DELETE", "/users/alice", None).await.0, 200);
    assert!(access.user("alice").is_none());
}

#[tokio::test]
async fn with_a_token_nobody_goes_without() {
    let token = Token::of("0123456789abcdef").expect("a token");
    let console = Console::with(dialect::amqp::model_options(), Some(token)).await;
    let (status, refused) = console.ask("GET", "/brokers", None).await;
    assert!(status == 401 && refused["error"].as_str().is_some_and(|text| text.contains("--token-file")), "{refused}");
    for (shown, status) in [("0123456789abcdef", 200), ("0123456789abcdeF", 401)] {
        let headers = format!("Host: x.example\r\nAuthorization: Bearer {shown}\r\nConnection: close");
        let (told, _) = console.send(&format!("GET /admin/v1/brokers HTTP/1.1\r\n{headers}\r\n\r\n")).await;
        assert_eq!(told, status, "{shown}");
    }
}

/// What the document says of the API holds: each page that it names is there, and takes the methods that it says.
#[tokio::test]
async fn the_document_describes_the_api() {
    let console = Console::start().await;
    let (status, document) = console.ask("GET", "/openapi.json", None).await;
    assert_eq!((status, &document["servers"][0]["url"]), (200, &json!("/admin/v1")));
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 25, "{paths:?}");
    for (path, item) in paths {
        let methods = item.as_object().expect("methods").keys().filter(|key| *key != "parameters");
        let names: Vec<_> = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let said: Vec<_> = item["parameters"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
        assert!(names.iter().eq(said), "{path}: {item}");
        let asked = path.replace(['{', '}'], "");
        let known = |answer: &Value| {
            !["has no such page", "does not do that"]
                .iter()
                .any(|text| answer["error"].as_str().unwrap_or("").contains(text))
        };
        for method in methods {
            let summary = item[method.as_str()]["summary"].as_str();
            assert!(summary.is_some_and(|text| text.len() > 4), "{method} {path}");
            if path == "/events" {
                // It has no end.
                continue;
            }
            let (_, answer) = console.ask(&method.to_uppercase(), &asked, Some(json!([]))).await;
            assert!(known(&answer), "{method} {path}: {answer}");
        }
    }
    let body = &paths["/topics"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["properties"]["permission"]["enum"], json!(["rw", "r", "w", "none", null]), "{body}");
    let query = &paths["/topics/{topic}/offsets"]["get"]["parameters"][0];
    assert_eq!((&query["name"], &query["in"], &query["required"]), (&json!("time"), &json!("query"), &json!(true)));
}

#[tokio::test]
async fn whoever_follows_is_sent_what_is_kept_and_then_what_happens() {
    let console = Console::start().await;
    let mut readers = Vec::new();
    let open = async || {
        let mut socket = TcpStream::connect(console.address).await.expect("connects");
        let request = "GET /admin/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request.as_bytes()).await.expect("sends");
        let mut told = vec![0; 12];
        socket.read_exact(&mut told).await.expect("reads");
        (socket, String::from_utf8_lossy(&told).into_owned())
    };
    for _ in 0..16 {
        readers.push(open().await);
    }
    assert!(readers.iter().all(|(_, told)| told == "HTTP/1.1 200"));
    assert_eq!(open().await.1, "HTTP/1.1 429", "one too many");
    let (mut socket, _) = readers.pop().expect("one");
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains("event: sample\n") {
        let count = socket.read(&mut piece).await.expect("reads");
        text.push_str(&String::from_utf8_lossy(piece.get(..count).unwrap_or_default()));
    }
    assert!(text.contains("content-type: text/event-stream") && text.contains("event: history\n"), "{text}");
    assert!(text.contains("\"name\":\"broker-a\"") && text.contains("\"messages_in_per_second\":"), "{text}");
    drop((socket, readers));
    while open().await.1 != "HTTP/1.1 200" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_broker_says_how_it_is() {
    let console = Console::start().await;
    let broker = console.items("/brokers").await.remove(0);
    assert_eq!(
        (&broker["name"], &broker["role"], &broker["is_well"]),
        (&json!("broker-a"), &json!("master"), &json!(true))
    );
    assert_eq!((&broker["slaves"], &broker["problem"]), (&json!([]), &json!(null)), "{broker}");
    assert!(broker["disk_total_bytes"].as_u64() > Some(0) && broker["log_end"].is_u64(), "{broker}");
    assert_eq!(broker["is_draining"], false);
    console.permit(Permission { read: true, write: false, inherit: false });
    let drained = console.items("/brokers").await.remove(0);
    assert_eq!((&drained["is_draining"], &drained["is_well"]), (&json!(true), &json!(true)));
    for (read, write, why) in [
        (true, false, Some("draining: broker.permission lets nobody write")),
        (false, true, Some("broker.permission lets nobody read;")),
        (false, false, Some("broker.permission lets nobody read or write")),
        (true, true, None),
    ] {
        console.permit(Permission { read, write, inherit: false });
        let (status, told) = console.send("GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let reason = told["reason"].as_str().unwrap_or_default();
        assert!(
            status == if why.is_some() { 503 } else { 200 } && reason.starts_with(why.unwrap_or_default()),
            "{told}"
        );
        assert_eq!(console.items("/brokers").await[0]["is_readable"], read);
    }
}

#[tokio::test]
async fn topics_are_made_altered_described_and_removed() {
    let console = Console::start().await;
    let asked = json!({"name": "orders", "queues": 4});
    let (status, told) = console.ask("POST", "/topics", Some(asked.clone())).await;
    assert_eq!((status, &told["write_queues"], &told["permission"]), (200, &json!(4), &json!("rw")), "{told}");
    assert_eq!(console.ask("POST", "/topics", Some(asked)).await.0, 409);
    let (status, told) = console.ask("PUT", "/topics/orders", Some(json!({"read_queues": 6, "permission": "r"}))).await;
    assert_eq!((status, &told["read_queues"], &told["write_queues"]), (200, &json!(6), &json!(4)), "{told}");
    let settings = console.broker.catalog.topic("orders").expect("there").settings.clone();
    assert_eq!((settings.perm, settings.read_queue_nums, settings.write_queue_nums), (4, 6, 4));
    let (_, told) = console.ask("GET", "/topics/orders", None).await;
    assert_eq!((&told["name"], told["queues"].as_array().map(Vec::len)), (&json!("orders"), Some(6)), "{told}");
    assert_eq!(
        told["queues"][5],
        json!({"broker": "broker-a", "queue": 5, "first": 0, "end": 0, "messages": 0, "last_stored_ms": null})
    );
    let named: Vec<_> = console.items("/topics").await.into_iter().filter(|topic| topic["system"] == false).collect();
    assert_eq!(named.iter().map(|topic| &topic["name"]).collect::<Vec<_>>(), ["orders"]);
    assert_eq!(console.items("/topics/orders/offsets?time=5").await.len(), 6);
    for (asked, status) in [
        (json!({"name": "a b"}), 400),
        (json!({"name": "x", "queues": 100_000_000}), 400),
        (json!({"name": "x", "permission": "all"}), 400),
        (json!({"name": "TBW102"}), 409),
        (json!({"name": "rmq_sys_mine"}), 400),
        (json!({"name": "x", "colour": "red"}), 400),
        (json!({"queues": 1}), 400),
    ] {
        assert_eq!(console.ask("POST", "/topics", Some(asked.clone())).await.0, status, "{asked}");
    }
    let head =
        "POST /admin/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close";
    let (status, told) = console.send(&format!("{head}\r\nContent-Length: 1\r\n\r\n{{")).await;
    assert!(status == 400 && told["error"].as_str().is_some_and(|text| text.contains("used: EOF")), "{told}");
    let (_, told) = console.ask("POST", "/topics", Some(json!({"name": "x", "queues": 0}))).await;
    assert!(
        told["error"].as_str().is_some_and(|text| text.contains("used: queues: invalid value: integer `0`")),
        "{told}"
    );
    let (status, told) = console.ask("DELETE", "/topics/order", None).await;
    assert_eq!((status, &told["nearest"]), (404, &json!(["orders"])), "{told}");
    assert_eq!(console.ask("DELETE", "/topics/TBW102", None).await.0, 400);
    assert_eq!(console.ask("DELETE", "/topics/orders", None).await.0, 200);
    assert!(console.broker.catalog.topic("orders").is_none());
}

#[tokio::test]
async fn groups_are_described_and_reset_with_a_look_first() {
    let console = Console::start().await;
    let broker = &console.broker;
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 2}))).await.0, 200);
    for number in 0..10 {
        console.publish("orders", number % 2);
    }
    let group = GroupName::trusted("billing");
    broker.catalog.group_for_use(&group, START).expect("made");
    broker.offsets.commit("orders", "billing", QueueId(0), 4).expect("committed");
    broker.offsets.commit("orders", "billing", QueueId(1), 1).expect("committed");
    let (_, told) = console.ask("GET", "/groups/billing", None).await;
    assert_eq!((&told["lag"], &told["members"]), (&json!(5), &json!([])), "{told}");
    assert_eq!((&told["queues"][1]["committed"], &told["queues"][1]["lag"]), (&json!(1), &json!(4)));
    assert_eq!(console.items("/groups").await, [json!({"name": "billing", "members": 0, "lag": 5})]);

    let reset = |asked: Value| console.ask("POST", "/groups/billing/reset", Some(asked));
    let (_, told) = reset(json!({"topic": "orders", "to": "end", "dry_run": true})).await;
    assert_eq!(told["items"][1], json!({"broker": "broker-a", "queue": 1, "from": 1, "to": 5}), "{told}");
    assert_eq!(broker.offsets.committed("orders", "billing", QueueId(1)), Some(1), "it was a look");
    let (status, told) = reset(json!({"topic": "orders", "to": {"offset": 3}, "queue": 1})).await;
    assert_eq!((status, told["items"].as_array().map(Vec::len)), (200, Some(1)), "{told}");
    assert_eq!(broker.offsets.committed("orders", "billing", QueueId(1)), Some(3));
    assert_eq!(broker.offsets.committed("orders", "billing", QueueId(0)), Some(4), "the other queue stays");
    assert_eq!(reset(json!({"topic": "orders", "to": "first"})).await.0, 200);
    assert_eq!(broker.offsets.committed("orders", "billing", QueueId(0)), Some(0));
    for (asked, status) in [
        (json!({"topic": "ordres", "to": "end"}), 404),
        (json!({"topic": "orders", "to": "end", "queue": 7}), 404),
        (json!({"topic": "orders", "to": "yesterday"}), 400),
        (json!({"topic": "orders"}), 400),
    ] {
        assert_eq!(reset(asked.clone()).await.0, status, "{asked}");
    }
    let (status, told) = console.ask("DELETE", "/groups/biling", None).await;
    assert_eq!((status, &told["nearest"]), (404, &json!(["billing"])), "{told}");
    assert_eq!(console.ask("DELETE", "/groups/billing?keep_offsets=true", None).await.0, 200);
    assert!(broker.catalog.group("billing").is_none());
    assert_eq!(broker.offsets.committed("orders", "billing", QueueId(0)), Some(0), "kept");
}

#[tokio::test]
async fn messages_are_found_by_place_by_key_and_by_either_id() {
    let console = Console::start().await;
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 2}))).await.0, 200);
    for number in 0..150 {
        let properties = format!("KEYS\u{1}k{number} all\u{2}UNIQ_KEY\u{1}U{number}\u{2}");
        console.publish_with("orders", 1, &[0xff, number], properties.as_bytes());
    }
    console.broker.store().index_staged().expect("indexed");
    let at = console.items("/topics/orders/messages?queue=1&offset=7&count=2").await;
    assert_eq!(at.iter().map(|message| &message["offset"]).collect::<Vec<_>>(), [7, 8]);
    let message = &at[0];
    assert_eq!(
        (&message["body_base64"], &message["properties"]["UNIQ_KEY"]),
        (&json!("/wc="), &json!("U7")),
        "{message}"
    );
    assert_eq!(console.items("/topics/orders/messages?queue=1&count=1000").await.len(), 100, "bounded");
    assert!(console.items("/topics/orders/messages?queue=1&offset=150").await.is_empty());
    assert_eq!(&console.items("/topics/orders/messages?key=k7").await[0], message);
    assert_eq!(&console.items("/topics/orders/messages?id=U7").await[0], message);
    assert!(console.items("/topics/orders/messages?key=k700").await.is_empty());
    let id = message["id"].as_str().expect("an id");
    assert_eq!(&console.ask("GET", &format!("/messages/{}", id.to_lowercase()), None).await.1, message);
    let other = format!("{}{:016X}", &id[..16], u64::MAX);
    for (path, status) in [
        ("/topics/orders/messages", 400),
        ("/topics/orders/messages?key=a&queue=1", 400),
        ("/topics/orders/messages?queue=2", 404),
        ("/topics/none/messages?queue=0", 404),
        ("/messages/U7", 400),
        (&format!("/messages/{other}"), 404),
    ] {
        assert_eq!(console.ask("GET", path, None).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn limits_and_permissions_of_keys_are_set_shown_and_taken_back() {
    let console = Console::start().await;
    let limit = |path: &'static str, limits: Value| console.ask("PUT", path, Some(limits));
    assert_eq!(limit("/vhosts/%2F/limits", json!({"connections": 7, "queues": 0})).await.0, 200);
    assert_eq!(limit("/users/guest/limits", json!({"channels": 9})).await.0, 200);
    let host = &console.items("/vhosts").await[0];
    assert_eq!((&host["connections_max"], &host["queues_max"]), (&json!(7), &json!(0)));
    let user = &console.items("/users").await[0];
    assert_eq!((&user["connections_max"], &user["channels_max"]), (&json!(null), &json!(9)));
    assert_eq!(console.ask("POST", "/vhosts/%2F/queues", Some(json!({"name": "q"}))).await.0, 409, "none may be there");
    assert_eq!(limit("/vhosts/%2F/limits", json!({})).await.0, 200);
    assert_eq!(console.ask("POST", "/vhosts/%2F/queues", Some(json!({"name": "q"}))).await.0, 200);
    assert_eq!(limit("/vhosts/%2F/limits", json!({"queues": -1})).await.0, 400);
    assert_eq!(limit("/users/gest/limits", json!({})).await, {
        (404, json!({"error": "user 'gest' not found", "nearest": ["guest"]}))
    });

    let of_guest = "/vhosts/%2F/topic-permissions/guest/amq.topic";
    let patterns = json!({"write": "^{username}\\.", "read": ".*"});
    assert_eq!(console.ask("PUT", of_guest, Some(patterns)).await.0, 200);
    assert_eq!(
        console.items("/topic-permissions").await,
        [json!({"vhost": "/", "user": "guest", "exchange": "amq.topic", "write": "^{username}\\.", "read": ".*"})]
    );
    assert_eq!(console.ask("PUT", of_guest, Some(json!({"write": "(", "read": ""}))).await.0, 400);
    assert_eq!(console.ask("DELETE", of_guest, None).await.0, 200);
    assert!(console.items("/topic-permissions").await.is_empty());
}

#[tokio::test]
async fn virtual_hosts_and_permissions_have_names_of_any_kind() {
    let console = Console::start().await;
    for name in ["/", "a/b ?&#", "ü.."] {
        let status = console.ask("POST", "/vhosts", Some(json!({"name": name}))).await.0;
        assert_eq!(status, if name == "/" { 409 } else { 200 }, "{name}");
    }
    let of_host = "/vhosts/a%2Fb%20%3F%26%23";
    let patterns = json!({"configure": "^x", "write": "", "read": ".*"});
    let (status, told) = console.ask("PUT", &format!("{of_host}/permissions/guest"), Some(patterns)).await;
    assert_eq!((status, told), (200, json!({"vhost": "a/b ?&#", "user": "guest"})));
    assert_eq!(console.items("/permissions").await.len(), 2);
    let bad = json!({"configure": "(", "write": "", "read": ""});
    assert_eq!(console.ask("PUT", &format!("{of_host}/permissions/guest"), Some(bad)).await.0, 400);
    assert_eq!(console.ask("DELETE", &format!("{of_host}/permissions/guest"), None).await.0, 200);
    assert_eq!(console.ask("DELETE", &format!("{of_host}/permissions/guest"), None).await.0, 404);
    assert_eq!(console.ask("DELETE", of_host, None).await.0, 200);
    assert_eq!(console.items("/vhosts").await.len(), 2);
    for name in ["", "a\u{7}"] {
        assert_eq!(console.ask("POST", "/vhosts", Some(json!({"name": name}))).await.0, 400, "{name:?}");
    }
}

#[tokio::test]
async fn names_that_browsers_take_out_of_paths_may_have_a_byte_before_them() {
    let console = Console::start().await;
    for (path, name) in [("/vhosts", ".."), ("/vhosts/%FF../queues", "."), ("/vhosts/%FF../queues", "%FF..")] {
        assert_eq!(console.ask("POST", path, Some(json!({"name": name}))).await.0, 200, "{name}");
    }
    for (path, name) in [("%FF../queues/%FF.", "."), ("%2E%2E/queues/%2E", "."), ("%FF../queues/%25FF..", "%FF..")] {
        let (status, told) = console.ask("GET", &format!("/vhosts/{path}"), None).await;
        assert_eq!((status, told["name"].as_str()), (200, Some(name)), "{path}");
    }
    assert_eq!(console.ask("DELETE", "/vhosts/%FF..", None).await.0, 200);
    assert_eq!(console.items("/vhosts").await.len(), 1);
}

#[tokio::test]
async fn exchanges_queues_and_bindings_are_made_shown_and_removed() {
    let console = Console::start().await;
    let in_host = |path: &str| format!("/vhosts/%2F{path}");
    let exchange = json!({"name": "events", "type": "topic", "arguments": {"alternate-exchange": "lost"}});
    assert_eq!(console.ask("POST", &in_host("/exchanges"), Some(exchange)).await.0, 200);
    for kind in ["quorum", "stream"] {
        let queue = json!({"name": kind, "arguments": {"x-queue-type": kind}});
        assert_eq!(console.ask("POST", &in_host("/queues"), Some(queue)).await.0, 200, "{kind}");
        assert_eq!(console.ask("DELETE", &in_host(&format!("/queues/{kind}")), None).await.0, 200, "{kind}");
    }
    let queue = json!({"name": "orders", "arguments": {"x-max-length": 5}});
    assert_eq!(console.ask("POST", &in_host("/queues"), Some(queue)).await.0, 200);
    let shown = json!({
        "name": "orders", "ready": 0, "unacknowledged": 0, "consumers": 0, "durable": true, "auto_delete": false,
        "exclusive": false, "arguments": {"x-max-length": 5},
    });
    assert_eq!(console.ask("GET", &in_host("/queues/orders"), None).await, (200, shown.clone()));
    assert_eq!(console.items(&in_host("/queues")).await, [shown]);
    let binding = json!({"source": "events", "destination": "orders", "key": "a.*", "arguments": {"n": 1}});
    assert_eq!(console.ask("POST", &in_host("/bindings"), Some(binding)).await.0, 200);
    let shown = json!({
        "source": "events", "destination": "orders", "destination_type": "queue", "key": "a.*", "arguments": {"n": 1},
    });
    assert_eq!(console.items(&in_host("/bindings")).await, [shown]);
    assert_eq!(console.ask("DELETE", &in_host("/exchanges/events?if_unused=true"), None).await.0, 409);
    let named = "source=events&destination=orders&key=a.%2A";
    assert_eq!(console.ask("DELETE", &in_host(&format!("/bindings?{named}")), None).await.0, 404, "other arguments");
    let arguments = "arguments=%7B%22n%22%3A1%7D";
    assert_eq!(console.ask("DELETE", &in_host(&format!("/bindings?{named}&{arguments}")), None).await.0, 200);
    assert_eq!(console.ask("DELETE", &in_host("/exchanges/events?if_unused=true"), None).await.0, 200);
    assert_eq!(console.ask("DELETE", &in_host("/queues/orders/messages"), None).await.1["messages"], 0);
    assert_eq!(console.ask("DELETE", &in_host("/queues/orders?if_empty=true&if_unused=true"), None).await.0, 200);
    assert_eq!(console.ask("GET", &in_host("/queues/orders"), None).await.0, 404);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_as_json() {
    let console = Console::start().await;
    for (method, path, body, status) in [
        ("GET", "/nothing", None, 404),
        ("GET", "/", None, 404),
        ("PATCH", "/users", None, 405),
        ("GET", "/users?form=1", None, 400),
        ("GET", "/users?count=0", None, 400),
        ("GET", "/users?sort=size", None, 400),
        ("DELETE", "/vhosts/%2F/topic-permissions/guest/amq.topic", None, 404),
        ("GET", "/vhosts/%FF/queues", None, 400),
        ("POST", "/users", Some(json!({"name": "a", "pasword": "x"})), 400),
        ("POST", "/users", Some(json!({"name": "a", "password": ""})), 400),
        ("POST", "/users", Some(json!({"name": "a", "tags": ["a b"]})), 400),
        ("POST", "/users", Some(json!([])), 400),
        ("POST", "/users", Some(json!({"name": "a".repeat(100_000)})), 413),
        ("POST", "/vhosts/%2F/queues", Some(json!({"name": "q", "arguments": {"x-expires": 0}})), 400),
        ("POST", "/vhosts/%2F/exchanges", Some(json!({"name": "x", "type": "swift"})), 400),
        ("POST", "/vhosts/%2F/exchanges", Some(json!({"name": "", "type": "topic"})), 400),
        ("DELETE", "/vhosts/%2F/exchanges/amq.topic", None, 400),
        ("GET", "/vhosts/none/queues", None, 404),
    ] {
        let (told, answer) = console.ask(method, path, body).await;
        assert_eq!(told, status, "{method} {path}: {answer}");
        assert!(answer["error"].is_string(), "{method} {path}: {answer}");
    }
    assert_eq!(console.items("/users").await.len(), 1, "nothing came of it");
}

#[tokio::test]
async fn pages_of_others_get_nothing() {
    let console = Console::start().await;
    let own = "Host: 127.0.0.1:8080\r\n";
    for (headers, status) in [
        (own.to_owned(), 200),
        (format!("{own}Origin: http://127.0.0.1:8080\r\n"), 200),
        (format!("{own}Origin: http://evil.example\r\n"), 403),
        ("Host: evil.example\r\n".to_owned(), 403),
    ] {
        let request = format!("GET /admin/v1/users HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        assert_eq!(console.send(&request).await.0, status, "{headers}");
    }
    let form = "name=a&password=b";
    let posted = format!(
        "POST /admin/v1/users HTTP/1.1\r\n{own}Content-Type: application/x-www-form-urlencoded\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    assert_eq!(console.send(&posted).await.0, 415);
}

#[tokio::test]
async fn a_broker_without_amqp_says_how_to_get_it() {
    let console = Console::of(broker::ModelOptions::default()).await;
    let (status, answer) = console.ask("POST", "/vhosts", Some(json!({"name": "a"}))).await;
    assert_eq!(status, 503);
    assert!(answer["error"].as_str().expect("a text").contains("amqp.port"), "{answer}");
    assert_eq!(console.broker.model.hosts().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_answered_once_they_are_written_and_health_is_answered_meanwhile() {
    let console = Arc::new(Console::start().await);
    let end = console.broker.store().watermarks().written();
    for number in 0..4 {
        let name = format!("user-{number}");
        assert_eq!(console.ask("POST", "/users", Some(json!({"name": name}))).await.0, 200);
        assert!(console.broker.store().watermarks().written() > end, "written before it was answered");
    }
    // Requests that do not come whole take neither the threads nor all connections.
    let mut halves = Vec::new();
    for _ in 0..40 {
        let mut socket = TcpStream::connect(console.address).await.expect("connects");
        let half = "POST /admin/v1/users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
        socket.write_all(half.as_bytes()).await.expect("sends");
        halves.push(socket);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let health = console.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!(health.0, 200);
    assert_eq!(console.ask("GET", "/users", None).await.0, 429, "as many as may be");
}

/// Dead letters of a group, made as a consumer makes them: each is sent back once too often.
fn bury(console: &Console, count: usize) {
    let broker = &console.broker;
    for number in 0..count {
        console.publish_with("orders", 0, number.to_string().as_bytes(), b"KEYS\x01k\x02WAIT\x01false\x02");
    }
    let queue = broker.catalog.queues_of("orders").expect("there")[0].clone();
    let first = queue.end().0 - count as u64;
    for entry in queue.entries(base::QueueOffset(first), count).expect("read") {
        let back = broker::SendBack {
            group: GroupName::trusted("billing"),
            log_offset: entry.log_offset,
            delay_level: -1,
            redeliveries_max: None,
        };
        broker.retries.send_back(&back, START).expect("buried");
    }
}

/// The bodies of a topic, and how often each says that it was delivered before.
async fn bodies(console: &Console, topic: &str) -> Vec<(String, u64)> {
    let mut bodies = Vec::new();
    for queue in console.broker.catalog.queues_of(topic).unwrap_or_default() {
        let path = format!("/topics/{}/messages?queue={}&count=100", topic.replace('%', "%25"), queue.id().0);
        for message in console.items(&path).await {
            let body = BASE64_STANDARD.decode(message["body_base64"].as_str().expect("a body")).expect("base64");
            let text = String::from_utf8(body).expect("text");
            bodies.push((text, message["deliveries"].as_u64().expect("a number")));
        }
    }
    bodies.sort();
    bodies
}

#[tokio::test]
async fn dead_letters_are_resent_once_and_stay_where_they_are() {
    let console = Console::start().await;
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 1}))).await.0, 200);
    bury(&console, 3);
    let resend = |asked: Value| console.ask("POST", "/groups/billing/resend", Some(asked));
    let counts = |told: &Value| (told["resent"].as_u64().expect("a number"), told["left"].as_u64().expect("a number"));

    let (status, told) = resend(json!({"dry_run": true})).await;
    assert_eq!((status, counts(&told)), (200, (0, 3)), "{told}");
    assert!(bodies(&console, "%RETRY%billing").await.is_empty(), "it was a look");
    assert_eq!(counts(&resend(json!({"count": 2})).await.1), (2, 1));
    assert_eq!(counts(&resend(json!({})).await.1), (1, 0));
    assert_eq!(counts(&resend(json!({})).await.1), (0, 0), "none twice");
    let all = ["0", "1", "2"].map(|body| (body.to_owned(), 0));
    assert_eq!(bodies(&console, "%RETRY%billing").await, all);
    assert_eq!(bodies(&console, "%DLQ%billing").await.len(), 3, "they are still there");
    let (_, told) = console.ask("GET", "/groups/billing", None).await;
    assert_eq!((&told["dead_letters"], &told["dead_letters_not_resent"]), (&json!(3), &json!(0)), "{told}");

    bury(&console, 1);
    assert_eq!(counts(&resend(json!({"to": "topics"})).await.1), (1, 0), "the new one alone");
    assert_eq!(bodies(&console, "orders").await.len(), 5, "3, 1 and its copy");
    assert_eq!(counts(&resend(json!({"again": true, "to": "topics", "count": 3})).await.1), (3, 1));
    assert_eq!(counts(&resend(json!({"to": "topics"})).await.1), (1, 0), "what was left of them");
    assert_eq!(counts(&resend(json!({"again": true, "since": START.wall.0 + 1})).await.1), (0, 0), "none died since");

    let (status, told) = console.ask("POST", "/groups/biling/resend", Some(json!({}))).await;
    assert_eq!((status, &told["nearest"]), (404, &json!(["billing"])), "{told}");
}

#[tokio::test]
async fn a_letter_whose_topic_is_gone_is_named_and_those_before_it_are_resent() {
    let console = Console::start().await;
    for name in ["orders", "others"] {
        assert_eq!(console.ask("POST", "/topics", Some(json!({"name": name, "queues": 1}))).await.0, 200);
    }
    bury(&console, 2);
    assert_eq!(console.ask("DELETE", "/topics/orders", None).await.0, 200);
    let resend = |asked: Value| console.ask("POST", "/groups/billing/resend", Some(asked));
    let (status, told) = resend(json!({"to": "topics"})).await;
    let text = told["error"].as_str().unwrap_or_default();
    assert!(status == 404 && text.starts_with("0 dead letters were resent; the one at offset 0 of queue 0"), "{told}");
    assert!(text.contains("orders"), "{told}");
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 1}))).await.0, 200);
    let (_, told) = resend(json!({"to": "topics"})).await;
    assert_eq!((&told["resent"], &told["left"]), (&json!(2), &json!(0)), "{told}");
    assert_eq!(console.ask("DELETE", "/topics/orders", None).await.0, 200);
    let (_, told) = resend(json!({"to": "topics", "again": true, "pass_over": true})).await;
    assert_eq!((&told["resent"], &told["passed_over"], &told["left"]), (&json!(0), &json!(2), &json!(0)), "{told}");
    let (_, told) = resend(json!({"to": "topics"})).await;
    assert_eq!((&told["resent"], &told["passed_over"]), (&json!(0), &json!(0)), "they are not in the way: {told}");
}

#[tokio::test]
async fn messages_are_copied_to_another_topic() {
    let console = Console::start().await;
    for name in ["orders", "again"] {
        assert_eq!(console.ask("POST", "/topics", Some(json!({"name": name, "queues": 1}))).await.0, 200);
    }
    for number in 0..5 {
        console.publish_with("orders", 0, format!("{number}").as_bytes(), b"KEYS\x01k\x02");
    }
    let copy = |asked: Value| console.ask("POST", "/topics/orders/copies", Some(asked));
    let (status, told) = copy(json!({"queue": 0, "offset": 1, "count": 3, "to": "again"})).await;
    assert_eq!((status, &told["copied"], &told["next"]), (200, &json!(3), &json!(4)), "{told}");
    assert_eq!(bodies(&console, "again").await, ["1", "2", "3"].map(|body| (body.to_owned(), 0)));
    assert_eq!(console.items("/topics/again/messages?key=k&count=9").await.len(), 3, "found by their key");
    for (asked, status) in [
        (json!({"queue": 0, "offset": 5, "to": "again"}), 404),
        (json!({"queue": 3, "offset": 0, "to": "again"}), 404),
        (json!({"queue": 0, "offset": 0, "to": "agian"}), 404),
        (json!({"queue": 0, "offset": 0, "to": "again", "broker": "broker-z"}), 404),
        (json!({"queue": 0, "to": "again"}), 400),
    ] {
        let (told, body) = copy(asked.clone()).await;
        assert_eq!(told, status, "{asked}: {body}");
    }
}

#[tokio::test]
async fn messages_are_sent_by_hand() {
    let console = Console::start().await;
    assert_eq!(console.ask("POST", "/topics", Some(json!({"name": "orders", "queues": 2}))).await.0, 200);
    let send = |asked: Value| console.ask("POST", "/topics/orders/messages", Some(asked));
    let (status, told) = send(json!({"body": "zwölf\n", "key": "k j", "tag": "paid", "queue": 1})).await;
    assert_eq!((status, &told["queue"], &told["offset"]), (200, &json!(1), &json!(0)), "{told}");
    let found = console.items("/topics/orders/messages?key=j").await;
    assert_eq!((&found[0]["body_base64"], &found[0]["properties"]["TAGS"]), (&json!("enfDtmxmCg=="), &json!("paid")));
    for (asked, status) in [
        (json!({"body": "x", "queue": 2}), 404),
        (json!({"body": "x", "key": "a\u{1}b"}), 400),
        (json!({"body": "x", "broker": "broker-z"}), 404),
        (json!({"key": "x"}), 400),
    ] {
        let (told, body) = send(asked).await;
        assert_eq!(told, status, "{body}");
    }
    let (status, told) = send(json!({"body": "x", "key": "k".repeat(40_000)})).await;
    assert!(status == 400 && told["error"].as_str().is_some_and(|text| text.contains("properties")), "{told}");
    assert_eq!(console.ask("POST", "/topics/order/messages", Some(json!({"body": "x"}))).await.0, 404);
    assert_eq!(console.items("/topics/orders/messages?queue=1&count=9").await.len(), 1);
    console.permit(Permission { read: true, write: false, inherit: false });
    let copied =
        console.ask("POST", "/topics/orders/copies", Some(json!({"queue": 1, "offset": 0, "to": "orders"}))).await;
    for (status, told) in [send(json!({"body": "x"})).await, copied] {
        assert!(
            status == 409 && told["error"].as_str().is_some_and(|text| text.contains("broker.permission")),
            "{told}"
        );
    }
}

#[tokio::test]
async fn settings_are_shown_and_changed_or_refused_with_the_reason() {
    let console = Console::start().await;
    let row =
        |value: &str| json!({"name": "retention.age", "value": value, "from": "default", "changes_at_once": true});
    assert_eq!(console.items("/settings").await, [row("72h")]);
    let (status, told) = console.ask("PATCH", "/settings", Some(json!({"retention.age": "12h"}))).await;
    assert_eq!((status, told), (200, json!({"items": [{"name": "retention.age", "from": "72h", "to": "12h"}]})));
    assert_eq!(console.items("/settings").await, [row("12h")]);
    let (status, told) = console.ask("PATCH", "/settings", Some(json!({"storage.flush": "sync"}))).await;
    assert!(status == 400 && told["error"].as_str().is_some_and(|text| text.contains("storage.flush")), "{told}");
    assert_eq!(console.ask("PATCH", "/settings", Some(json!({"retention.age": 12}))).await.0, 400, "no text");
}
