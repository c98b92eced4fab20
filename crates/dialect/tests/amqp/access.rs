//! Who is let in, and what each may do and have.

use base::session::{Session as _, Subject};
use broker::{ModelError, hash_password};
use dialect::amqp::CertificateUser;
use format::model::{
    HostLimits, PermissionSettings, TopicPermissionSettings, UserLimits, UserSettings, VirtualHostSettings,
};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::Publish;
use wire::amqp::method::connection::{ChannelClose, ChannelOpen, UpdateSecret};
use wire::amqp::method::queue::QueueBind;
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, START, message, short};

/// Has a user there, with its name as password, who may do everything in the virtual host `/`.
fn make_user(bench: &Bench, name: &str) {
    let model = &bench.broker.model;
    let password = Some(hash_password(name.as_bytes(), [1, 2, 3, 4]));
    model.make_user(name, UserSettings { password, tags: Vec::new() }, bench.now).expect("made");
    let all = || ".*".to_owned();
    let allowed = PermissionSettings { configure: all(), write: all(), read: all() };
    model.permit("/", name, allowed, bench.now).expect("permitted");
}

/// A connection of that user without channels, or what the broker says instead.
fn connect(bench: &Bench, user: &str, host: &str) -> Result<Client, String> {
    let mut client = bench.stranger("10.0.0.9:1");
    let said = client.enter("PLAIN", format!("\0{user}\0{user}").as_bytes(), host).join("; ");
    if said == "connection.open-ok" { Ok(client) } else { Err(said) }
}

fn anna() -> Subject {
    Subject { distinguished_name: "CN=anna,O=Example".to_owned(), common_name: Some("anna".to_owned()) }
}

#[test]
fn who_has_proven_by_a_certificate_to_be_a_user_needs_no_password() {
    let mut bench = Bench::new();
    make_user(&bench, "anna");
    let refused = "connection.close ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For \
                   details see the broker logfile.";
    let enter = |bench: &Bench, remote: &str, subject: Subject, response: &[u8]| {
        let mut client = bench.stranger(remote);
        client.session.proven(subject);
        client.enter("EXTERNAL", response, "/").remove(0)
    };
    let local = "127.0.0.1:1";
    assert_eq!(enter(&bench, "10.0.0.9:1", anna(), b""), "connection.open-ok");
    assert_eq!(enter(&bench, local, anna(), b"guest"), "connection.open-ok", "the certificate alone counts");
    let of = |name: &str| Subject { common_name: Some(name.to_owned()), ..anna() };
    assert_eq!(enter(&bench, local, of("bert"), b"anna"), refused, "there is no such user");
    assert_eq!(enter(&bench, local, Subject { common_name: None, ..anna() }, b"anna"), refused);
    assert_eq!(enter(&bench, local, of("guest"), b""), "connection.open-ok");
    let by_network = "connection.close ACCESS_REFUSED - user 'guest' can only connect via localhost";
    assert_eq!(enter(&bench, "10.0.0.9:1", of("guest"), b""), by_network);
    bench.options.certificate_user = CertificateUser::DistinguishedName;
    assert_eq!(enter(&bench, local, anna(), b""), refused);
    make_user(&bench, "CN=anna,O=Example");
    assert_eq!(enter(&bench, local, anna(), b""), "connection.open-ok");
}

#[test]
fn external_is_offered_where_a_certificate_was_verified() {
    let bench = Bench::new();
    assert_eq!(bench.stranger("127.0.0.1:1").offered(), "AMQPLAIN PLAIN");
    let mut client = bench.stranger("127.0.0.1:1");
    client.session.proven(anna());
    assert_eq!(client.offered(), "AMQPLAIN PLAIN EXTERNAL");
}

fn keys(write: &str, read: &str) -> TopicPermissionSettings {
    TopicPermissionSettings { write: write.to_owned(), read: read.to_owned() }
}

#[test]
fn keys_of_topic_exchanges_are_a_matter_of_permission_where_there_is_one() {
    let bench = Bench::new();
    make_user(&bench, "anna");
    let mut client = connect(&bench, "anna", "/").expect("connected");
    client.open(1);
    client.simple_queue("q");
    let bind = |client: &mut Client, exchange: &str, key: &str| {
        client.send(
            1,
            QueueBind { queue: short("q"), exchange: short(exchange), routing_key: short(key), ..QueueBind::default() },
        );
        client.take().join("; ")
    };
    assert_eq!(bind(&mut client, "amq.topic", "#"), "queue.bind-ok", "without one every key may be used");
    assert_eq!(bind(&mut client, "amq.direct", "bert.news"), "queue.bind-ok");
    client.publish("amq.topic", "bert.news", b"before");
    let model = &bench.broker.model;
    for exchange in [&b"amq.topic"[..], b"amq.direct"] {
        model
            .permit_topic(("/", "anna", exchange), keys("^{username}\\.", "^(news|{username})\\."), bench.now)
            .expect("set");
    }
    client.publish("amq.topic", "anna.news", b"own");
    client.publish("amq.direct", "bert.news", b"no topic");
    assert_eq!(client.take(), [""; 0]);
    client.publish("amq.topic", "bert.news", b"refused");
    let refused = |right: &str, key: &str| {
        format!(
            "channel.close ACCESS_REFUSED - {right} access to topic '{key}' in exchange 'amq.topic' in vhost '/' refused \
             for user 'anna'"
        )
    };
    assert_eq!(client.take(), [refused("write", "bert.news")]);
    client.open(2);
    let of_two = |key: &str, copy: &str| {
        let headers = Arguments::of(|table| {
            table.array("CC", |array| {
                array.put(Value::LongString(copy.as_bytes()));
            });
        });
        let publish = Publish { exchange: short("amq.topic"), routing_key: short(key), ..Publish::default() };
        let properties = Properties { headers: Some(headers.table()), ..Default::default() };
        message(2, publish, properties, b"copied")
    };
    client.bytes(&of_two("anna.a", "anna.b"));
    assert_eq!(client.take(), [""; 0]);
    client.bytes(&of_two("anna.a", "bert.b"));
    assert_eq!(client.take(), [refused("write", "bert.b")]);
    let mut client = connect(&bench, "anna", "/").expect("connected");
    client.open(1);
    assert_eq!(bind(&mut client, "amq.topic", "news.*"), "queue.bind-ok");
    assert_eq!(bind(&mut client, "amq.topic", "bert.*"), refused("read", "bert.*"));
    client.open(2);
    model.forget_topic(("/", "anna", b"amq.topic"), bench.now).expect("as before");
    let again = model.forget_topic(("/", "anna", b"amq.topic"), bench.now);
    assert!(matches!(again, Err(ModelError::NoSuchTopicPermission { .. })), "{again:?}");
    let publish = Publish { exchange: short("amq.topic"), routing_key: short("bert.news"), ..Publish::default() };
    client.bytes(&message(2, publish, Properties::default(), b"again"));
    let mut reader = bench.client();
    let said: Vec<_> =
        (0..5).map(|_| reader.get("q", true).rsplit(": ").next().unwrap_or_default().to_owned()).collect();
    assert_eq!(said, ["before", "own", "no topic", "copied", "again"]);
}

#[test]
fn limits_and_permissions_outlive_a_kill_and_go_with_whom_they_are_about() {
    let bench = Bench::new();
    make_user(&bench, "anna");
    let model = &bench.broker.model;
    let (now, place) = (bench.now, ("/", "anna", &b"x"[..]));
    let of_host = HostLimits { connections_max: Some(7), queues_max: None };
    let of_user = UserLimits { connections_max: None, channels_max: Some(0) };
    model.permit_topic(place, keys("a", "b"), now).expect("set");
    model.limit_host("/", of_host, now).expect("set");
    model.limit_user("anna", of_user, now).expect("set");
    assert!(model.permit_topic(place, keys("(", "b"), now).is_err(), "no pattern");
    assert!(matches!(model.permit_topic(("/", "bert", b"x"), keys("", ""), now), Err(ModelError::NoSuchUser(_))));
    assert!(matches!(model.limit_host("/none", of_host, now), Err(ModelError::NoSuchHost(_))));
    assert!(matches!(model.limit_user("bert", of_user, now), Err(ModelError::NoSuchUser(_))));
    let bench = bench.killed();
    let model = &bench.broker.model;
    assert_eq!(
        model.access.topic_permissions(),
        [("/".to_owned(), "anna".to_owned(), b"x"[..].into(), keys("a", "b"))]
    );
    assert_eq!((model.host("/").expect("there").limits(), model.access.limits("anna")), (of_host, of_user));
    model.remove_user("anna", now).expect("removed");
    model.remove_host("/", now).expect("removed");
    make_host_again(&bench);
    let bench = bench.killed();
    let model = &bench.broker.model;
    assert_eq!(model.access.topic_permissions(), []);
    let none = (HostLimits::default(), UserLimits::default());
    assert_eq!((model.host("/").expect("there").limits(), model.access.limits("anna")), none);
}

fn make_host_again(bench: &Bench) {
    bench.broker.model.make_host("/", VirtualHostSettings::default(), bench.now).expect("made");
    make_user(bench, "anna");
}

#[test]
fn a_virtual_host_has_no_more_connections_and_queues_than_it_may() {
    let bench = Bench::new();
    make_user(&bench, "anna");
    let limits = HostLimits { connections_max: Some(2), queues_max: Some(1) };
    bench.broker.model.limit_host("/", limits, bench.now).expect("set");
    let mut first = connect(&bench, "anna", "/").expect("one");
    let second = connect(&bench, "anna", "/").expect("two");
    let refused = "connection.close NOT_ALLOWED - access to vhost '/' refused for user 'anna': connection limit (2) is \
                   reached";
    assert_eq!(connect(&bench, "anna", "/").map(drop), Err(refused.to_owned()));
    second.lose();
    let _third = connect(&bench, "anna", "/").expect("one has gone");
    first.open(1);
    first.simple_queue("q");
    first.simple_queue("q");
    let refused =
        "channel.close PRECONDITION_FAILED - cannot declare queue 'r': queue limit in vhost '/' (1) is reached";
    assert_eq!(first.queue("r", true, &Arguments::of(|_| ())), [refused]);
}

#[test]
fn a_user_has_no_more_connections_and_channels_than_it_may() {
    let bench = Bench::new();
    ["anna", "bert"].iter().for_each(|name| make_user(&bench, name));
    let limits = UserLimits { connections_max: Some(2), channels_max: Some(2) };
    bench.broker.model.limit_user("anna", limits, bench.now).expect("set");
    let mut first = connect(&bench, "anna", "/").expect("one");
    let mut second = connect(&bench, "anna", "/").expect("two");
    let refused =
        "connection.close NOT_ALLOWED - Connection refused for user 'anna': user connection limit (2) is reached";
    assert_eq!(connect(&bench, "anna", "/").map(drop), Err(refused.to_owned()));
    let mut other = connect(&bench, "bert", "/").expect("another user");
    (1..9).for_each(|number| other.open(number));
    first.open(1);
    first.open(2);
    second.send(1, ChannelOpen::default());
    let refused = "connection.close NOT_ALLOWED - number of channels opened for user 'anna' has reached the maximum \
                   allowed user limit of (2)";
    assert_eq!(second.take(), [refused]);
    first.send(2, ChannelClose::default());
    assert_eq!(first.take(), ["channel.close-ok"]);
    second.lose();
    let mut third = connect(&bench, "anna", "/").expect("one has gone");
    third.open(1);
    first.lose();
    third.open(2);
}

#[test]
fn a_secret_is_taken_for_a_new_one_if_it_is_the_users() {
    let bench = Bench::new();
    make_user(&bench, "anna");
    let mut client = connect(&bench, "anna", "/").expect("connected");
    let update = |new_secret| UpdateSecret { new_secret, reason: short("rotated") };
    client.send(0, update(b"anna"));
    assert_eq!(client.take(), ["connection.update-secret-ok"]);
    let changed = |settings: &mut UserSettings| settings.password = Some(hash_password(b"new", [4, 3, 2, 1]));
    bench.broker.model.change_user("anna", changed, bench.now).expect("changed");
    client.send(0, update(b"new"));
    assert_eq!(client.take(), ["connection.update-secret-ok"]);
    client.send(0, update(b"anna"));
    let refused = "connection.close NOT_ALLOWED - New secret was refused by one of the backends";
    assert_eq!(client.take(), [refused]);
}

#[test]
fn what_the_log_did_not_take_is_not_remembered() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = storage::Options { disk: Disk::new(disk.clone()), ..store_options(std::path::Path::new("/data")) };
    let bench = Bench::over(store, tempfile::tempdir().expect("directory"), START);
    make_user(&bench, "anna");
    let (model, now) = (&bench.broker.model, bench.now);
    disk.fail(Failure::error(Operation::Sync, 5));
    bench.broker.store().sync().expect_err("the disk fails");
    let generation = model.access.generation();
    let changed = |settings: &mut UserSettings| settings.password = None;
    let limits = UserLimits { connections_max: Some(0), channels_max: None };
    let of_host = HostLimits { connections_max: Some(0), queues_max: None };
    for refused in [
        model.make_host("/other", VirtualHostSettings::default(), now),
        model.make_user("bert", UserSettings::default(), now),
        model.change_user("anna", changed, now),
        model.permit("/", "anna", PermissionSettings::default(), now),
        model.forbid("/", "anna", now),
        model.permit_topic(("/", "anna", b"amq.topic"), keys("", ""), now),
        model.limit_user("anna", limits, now),
        model.limit_host("/", of_host, now),
        model.remove_user("anna", now),
        model.remove_host("/", now),
    ] {
        assert!(matches!(refused, Err(ModelError::Refused(_))), "{refused:?}");
    }
    assert_eq!(model.access.generation(), generation, "nothing of it is remembered");
    assert!(model.host("/other").is_err() && model.access.is_password("anna", b"anna"));
    assert_eq!(model.host("/").expect("there").limits(), HostLimits::default());
    connect(&bench, "anna", "/").expect("as before");
}
