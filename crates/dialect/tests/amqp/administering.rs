//! What connected clients notice of administrators: users and virtual hosts that come, change and go.

use base::session::Session;
use broker::{BindingTarget, ModelError, OnlyIf};
use dialect::amqp::{AdminError, Administrator, AskedBinding, AskedExchange, AskedQueue, shown_arguments};
use format::model::{PermissionSettings, UserSettings, VirtualHostSettings};
use serde_json::{Map, Value as Json, json};
use wire::amqp::frame::PROTOCOL_HEADER;
use wire::amqp::method::basic::{Consume, Publish};
use wire::amqp::method::connection::{ConnectionCloseOk, Open, TuneOk};
use wire::amqp::method::queue::{QueueBind, QueueDeclare, QueueUnbind};
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, short};

fn user(password: &[u8]) -> UserSettings {
    UserSettings { password: Some(broker::hash_password(password, [1, 2, 3, 4])), tags: Vec::new() }
}

fn patterns(configure: &str, write: &str, read: &str) -> PermissionSettings {
    PermissionSettings { configure: configure.to_owned(), write: write.to_owned(), read: read.to_owned() }
}

/// A user in a virtual host of its own.
fn bench_with_alice() -> Bench {
    let bench = Bench::new();
    let model = &bench.broker.model;
    model.make_host("/shop", VirtualHostSettings::default(), bench.now).expect("made");
    model.make_user("alice", user(b"secret"), bench.now).expect("made");
    model.permit("/shop", "alice", patterns(".*", ".*", ".*"), bench.now).expect("permitted");
    bench
}

/// What is said to whoever opens a connection.
fn connected(bench: &Bench, login: &[u8], host: &str) -> (Client, String) {
    let mut client = bench.stranger("10.0.0.9:40000");
    client.bytes(&PROTOCOL_HEADER);
    client.log_in("PLAIN", login);
    client.send(0, TuneOk { channel_max: 0, frame_max: 4096, heartbeat: 0 });
    client.send(0, Open { virtual_host: short(host), ..Open::default() });
    let said = client.take().pop().unwrap_or_default();
    (client, said)
}

fn alice(bench: &Bench) -> Client {
    let (mut client, said) = connected(bench, b"\0alice\0secret", "/shop");
    assert_eq!(said, "connection.open-ok");
    client.open(1);
    client
}

fn assert_dismissed(client: &mut Client, why: &str) {
    assert_eq!(client.take(), [format!("connection.close CONNECTION_FORCED - {why}")]);
    client.send(0, ConnectionCloseOk {});
    assert!(client.session.is_over());
}

#[test]
fn a_user_works_in_the_virtual_hosts_that_were_permitted() {
    let bench = bench_with_alice();
    let mut client = alice(&bench);
    client.simple_queue("q");
    client.publish("", "q", b"m");
    assert_eq!(client.get("q", true), "got 1, 0 more: m");
    let (_, said) = connected(&bench, b"\0alice\0secret", "/");
    assert_eq!(said, "connection.close NOT_ALLOWED - access to vhost '/' refused for user 'alice'");
    let mut of_guest = bench.client();
    assert!(of_guest.get("q", true).contains("NOT_FOUND"), "virtual hosts are apart");
}

#[test]
fn permissions_count_at_once_for_who_is_connected() {
    let bench = bench_with_alice();
    let model = &bench.broker.model;
    let mut client = alice(&bench);
    client.simple_queue("q");
    model.permit("/shop", "alice", patterns("", "^(amq\\.default|q)$", ""), bench.now).expect("permitted");
    client.publish("", "q", b"m");
    let refused = "channel.close ACCESS_REFUSED - read access to queue 'q' in vhost '/shop' refused for user 'alice'";
    assert_eq!(client.get("q", true), refused);
    model.forbid("/shop", "alice", bench.now).expect("forbidden");
    let (_, said) = connected(&bench, b"\0alice\0secret", "/shop");
    assert_eq!(said, "connection.close NOT_ALLOWED - access to vhost '/shop' refused for user 'alice'");
    assert!(matches!(model.forbid("/shop", "alice", bench.now), Err(ModelError::NoSuchPermission { .. })));
}

#[test]
fn a_pattern_that_is_none_is_refused_and_changes_nothing() {
    let bench = bench_with_alice();
    let end = bench.broker.state_position();
    assert!(bench.broker.model.permit("/shop", "alice", patterns("(", "", ""), bench.now).is_err());
    assert_eq!(bench.broker.state_position(), end, "the log has nothing of it");
    alice(&bench).simple_queue("q");
}

#[test]
fn who_is_removed_has_to_go() {
    let bench = bench_with_alice();
    let mut client = alice(&bench);
    let mut of_guest = bench.client();
    bench.broker.model.remove_user("alice", bench.now).expect("removed");
    assert_dismissed(&mut client, "user 'alice' is deleted");
    assert_eq!(of_guest.take(), Vec::<String>::new(), "others stay");
    let (_, said) = connected(&bench, b"\0alice\0secret", "/shop");
    assert!(said.contains("ACCESS_REFUSED"), "{said}");
    assert!(bench.broker.model.access.permissions().iter().all(|(_, user, _)| user != "alice"));
}

#[test]
fn another_password_counts_from_the_next_connection_on() {
    let bench = bench_with_alice();
    let mut client = alice(&bench);
    let model = &bench.broker.model;
    model.change_user("alice", |settings| settings.password = user(b"other").password, bench.now).expect("changed");
    client.simple_queue("q");
    assert!(connected(&bench, b"\0alice\0secret", "/shop").1.contains("ACCESS_REFUSED"));
    assert_eq!(connected(&bench, b"\0alice\0other", "/shop").1, "connection.open-ok");
}

#[test]
fn a_virtual_host_goes_with_its_queues_and_whoever_uses_it() {
    let bench = bench_with_alice();
    let mut client = alice(&bench);
    client.simple_queue("q");
    client.send(1, QueueDeclare { queue: short("mine"), exclusive: true, ..QueueDeclare::default() });
    client.consume("q", "c", false);
    client.publish("", "q", b"m");
    client.take();
    let host = bench.broker.model.host("/shop").expect("there");
    bench.broker.model.remove_host("/shop", bench.now).expect("removed");
    let said = client.take();
    assert!(said.contains(&"connection.close CONNECTION_FORCED - vhost '/shop' is deleted".to_owned()), "{said:?}");
    assert!(host.is_gone() && host.queues().is_empty());
    client.send(0, ConnectionCloseOk {});
    client.lose();
    drop(host);
    // A virtual host of the same name is another one, also after a kill.
    bench.broker.model.make_host("/shop", VirtualHostSettings::default(), bench.now).expect("made");
    let bench = bench.killed();
    assert_eq!(bench.broker.model.host("/shop").expect("there").queues().len(), 0);
    assert!(connected(&bench, b"\0alice\0secret", "/shop").1.contains("NOT_ALLOWED"), "what was permitted went, too");
}

#[test]
fn nothing_is_made_in_a_virtual_host_that_is_gone() {
    let bench = bench_with_alice();
    let none = Map::new();
    let administrator = Administrator::new(&bench.broker, "/shop", bench.now).expect("there");
    bench.broker.model.remove_host("/shop", bench.now).expect("removed");
    let queue = AskedQueue { name: "q", durable: true, auto_delete: false, arguments: &none };
    let exchange = AskedExchange {
        name: "x",
        kind: "topic",
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: &none,
    };
    for refused in [administrator.declare_queue(&queue).map(drop), administrator.declare_exchange(&exchange)] {
        assert!(matches!(refused, Err(AdminError::Model(ModelError::NoSuchHost(_)))), "{refused:?}");
    }
}

#[test]
fn administrators_and_clients_mean_the_same_queue_by_the_same_arguments() {
    let bench = Bench::new();
    let administrator = Administrator::new(&bench.broker, "/", bench.now).expect("there");
    let arguments = object(json!({"x-max-length": 2, "x-overflow": "reject-publish"}));
    let asked = AskedQueue { name: "q", durable: true, auto_delete: false, arguments: &arguments };
    let made = administrator.declare_queue(&asked).expect("made");
    assert_eq!(shown_arguments(&made.wish().arguments), arguments);
    let mut client = bench.client();
    let of_client = Arguments::of(|table| {
        table.put("x-max-length", wire::amqp::table::Value::I32(2));
        table.put("x-overflow", wire::amqp::table::Value::LongString(b"reject-publish"));
    });
    assert_eq!(client.queue("q", true, &of_client), ["queue q 0/0"]);
    let other = AskedQueue { arguments: &Map::new(), ..asked };
    let differs = administrator.declare_queue(&other).expect_err("it is there, and otherwise");
    assert_eq!(
        differs.to_string(),
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received 'none' but current is '2'"
    );
    for (name, bad) in [("r", json!({"x-max-length": -1})), ("", json!({})), ("amq.r", json!({})), ("a\nb", json!({}))]
    {
        let arguments = object(bad);
        let refused = administrator.declare_queue(&AskedQueue { name, arguments: &arguments, ..asked });
        assert!(matches!(refused, Err(AdminError::Invalid(_))), "{name}: {refused:?}");
    }
}

#[test]
fn bindings_of_administrators_route_and_are_removed_as_they_were_made() {
    let bench = Bench::new();
    let administrator = Administrator::new(&bench.broker, "/", bench.now).expect("there");
    let none = Map::new();
    let arguments = object(json!({"x-match": "any", "kind": "a"}));
    let (mut client, to) = (bench.client(), BindingTarget::Queue(b"q"[..].into()));
    client.simple_queue("q");
    let topic = AskedBinding { source: "amq.topic", to: &to, key: "a.#", arguments: &none };
    let headers = AskedBinding { source: "amq.headers", key: "", arguments: &arguments, ..topic };
    for asked in [&topic, &headers] {
        administrator.bind(asked).expect("bound");
    }
    client.publish("amq.topic", "a.b", b"m");
    assert_eq!(client.get("q", true), "got 1, 0 more: m");
    assert_eq!(administrator.host().bindings().len(), 2);
    for asked in [&topic, &headers] {
        administrator.unbind(asked).expect("unbound");
        assert!(matches!(administrator.unbind(asked), Err(AdminError::Model(ModelError::NoSuchBinding(_)))));
    }
    let mandatory =
        Publish { exchange: short("amq.topic"), routing_key: short("a.b"), mandatory: true, ..Publish::default() };
    client.publish_with(mandatory, wire::amqp::content::Properties::default(), b"m");
    assert_eq!(client.take(), ["return 312 a.b: m"]);
    let of_default = AskedBinding { source: "", ..topic };
    assert!(matches!(administrator.bind(&of_default), Err(AdminError::Invalid(_))));
}

/// RabbitMQ compares the tables sorted (`rabbit_misc:sort_field_table`); a client whose tables have no order of their own binds and unbinds so.
#[test]
fn a_binding_is_the_same_whatever_the_order_of_its_arguments() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    let pairs = [("x-match", Value::LongString(b"all")), ("a", Value::I32(1)), ("b", Value::Bool(true))];
    let table = |order: [usize; 3]| {
        Arguments::of(|table| order.into_iter().for_each(|at| _ = table.put(pairs[at].0, pairs[at].1)))
    };
    let names = || (short("q"), short("amq.headers"), short("k"));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (arguments, (queue, exchange, routing_key)) = (table(order), names());
        client
            .send(1, QueueBind { queue, exchange, routing_key, arguments: arguments.table(), ..QueueBind::default() });
    }
    let host = bench.broker.model.host("/").expect("there");
    assert_eq!(host.bindings().len(), 1);
    let (arguments, (queue, exchange, routing_key)) = (table([1, 2, 0]), names());
    client
        .send(1, QueueUnbind { queue, exchange, routing_key, arguments: arguments.table(), ..QueueUnbind::default() });
    client.take();
    assert_eq!(host.bindings().len(), 0);
}

#[test]
fn an_administrator_removes_every_binding_that_is_shown() {
    let bench = Bench::new();
    let administrator = Administrator::new(&bench.broker, "/", bench.now).expect("there");
    let (mut client, to) = (bench.client(), BindingTarget::Queue(b"q"[..].into()));
    client.simple_queue("q");
    let values = [Value::I32(1), Value::I64(1), Value::U8(1), Value::Bytes(b"x"), Value::Timestamp(7), Value::Void];
    for value in values.into_iter().chain([Value::Decimal(1, 15), Value::F64(0.5), Value::LongString(b"x")]) {
        let arguments = Arguments::of(|table| {
            table
                .put("x-match", Value::LongString(b"any"))
                .put("a", value)
                .table("b", |table| _ = table.put("c", value));
            table.array("d", |array| _ = array.put(value));
        });
        let (queue, exchange) = (short("q"), short("amq.headers"));
        client.send(1, QueueBind { queue, exchange, arguments: arguments.table(), ..QueueBind::default() });
    }
    client.take();
    for left in (0..9).rev() {
        let shown = administrator.host().bindings().pop().expect("one more");
        let arguments = shown_arguments(&shown.arguments);
        let asked = AskedBinding { source: "amq.headers", to: &to, key: "", arguments: &arguments };
        administrator.unbind(&asked).unwrap_or_else(|error| panic!("{error}: {arguments:?}"));
        assert_eq!(administrator.host().bindings().len(), left);
    }
}

#[test]
fn an_administrator_removes_queues_of_others_unless_they_are_used() {
    let bench = Bench::new();
    let administrator = Administrator::new(&bench.broker, "/", bench.now).expect("there");
    let mut client = bench.client();
    client.send(1, QueueDeclare { queue: short("mine"), exclusive: true, ..QueueDeclare::default() });
    client.send(1, Consume { queue: short("mine"), consumer_tag: short("c"), ..Consume::default() });
    client.take();
    let used = administrator.delete_queue("mine", OnlyIf { unused: true, empty: false });
    assert!(matches!(used, Err(AdminError::Model(ModelError::InUse { .. }))), "{used:?}");
    administrator.delete_queue("mine", OnlyIf::default()).expect("removed");
    assert_eq!(client.take(), ["cancel c"]);
    let missing = administrator.delete_queue("mine", OnlyIf::default());
    assert!(matches!(missing, Err(AdminError::Model(ModelError::NoSuchQueue { .. }))), "{missing:?}");
    let reserved = administrator.delete_exchange("amq.topic", false);
    assert!(matches!(reserved, Err(AdminError::Invalid(_))), "{reserved:?}");
}

fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(object) => object,
        other => panic!("no object: {other}"),
    }
}
