//! What name servers are told of a broker's topics, and when.

use std::time::{Duration, Instant};

use conformance::connection::{Answer, Connection};
use conformance::sluice::Setup;
use rustix::process::{Pid, Signal, kill_process};
use wire::rocketmq::code::{request, response};

/// Clients wait this long for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

fn create(broker: &mut Connection, topic: &str) -> Answer {
    let fields = [
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "4"),
        ("writeQueueNums", "4"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("topicSysFlag", "0"),
        ("order", "false"),
    ];
    broker.call(request::UPDATE_AND_CREATE_TOPIC, &fields, &[])
}

fn route(name_server: &mut Connection, topic: &str) -> Answer {
    name_server.call(request::GET_ROUTE_BY_TOPIC, &[("topic", topic)], &[])
}

/// As clients do it that make a topic and start a producer for it.
#[test]
fn a_topic_that_was_made_is_found_at_once() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = Setup::serve(&scratch.path().join("data")).start();
    let (mut broker, mut name_server) = (Connection::open(&sluice.broker), Connection::open(&sluice.name_server));
    for number in 0..20 {
        let topic = format!("made_{number}");
        assert_eq!(create(&mut broker, &topic).code, response::SUCCESS);
        assert_eq!(route(&mut name_server, &topic).code, response::SUCCESS, "{topic}");
        let list = format!(
            r#"{{"topicConfigList":[{{"topicName":"listed_{number}","readQueueNums":2,"writeQueueNums":2,"perm":6}}]}}"#
        );
        let listed = broker.call(request::UPDATE_AND_CREATE_TOPIC_LIST, &[], list.as_bytes());
        assert_eq!(listed.code, response::SUCCESS);
        assert_eq!(route(&mut name_server, &format!("listed_{number}")).code, response::SUCCESS);
    }
}

#[test]
fn a_name_server_that_is_away_or_does_not_answer_holds_nobody_up_for_long() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut names = Setup::name_server(&scratch.path().join("names")).start();
    let sluice = Setup::broker(&scratch.path().join("data"), &names.name_server).start();
    let (mut broker, mut other) = (Connection::open(&sluice.broker), Connection::open(&sluice.broker));
    let mut name_server = Connection::open(&names.name_server);
    while !name_server.cluster_info().contains(&sluice.broker) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = Pid::from_raw(names.id() as i32).expect("a process");
    kill_process(process, Signal::STOP).expect("it is stopped");
    let began = Instant::now();
    let making = std::thread::spawn(move || {
        assert_eq!(create(&mut broker, "unanswered").code, response::SUCCESS);
        (broker, began.elapsed())
    });
    // The network threads go on meanwhile.
    while !making.is_finished() {
        assert_eq!(other.send_message("sent", 0, "", b"x").code, response::SUCCESS);
    }
    let (mut broker, took) = making.join().expect("it is answered");
    assert!(took < PATIENCE, "{took:?}");
    names.kill();
    let began = Instant::now();
    assert_eq!(create(&mut broker, "away").code, response::SUCCESS);
    assert!(began.elapsed() < PATIENCE);
}

/// A broker that is drained says so: producers do not choose it.
#[test]
fn what_the_broker_permits_is_in_the_route() {
    let scratch = tempfile::tempdir().expect("directory");
    let names = Setup::name_server(&scratch.path().join("names")).start();
    let setup = Setup::broker(&scratch.path().join("data"), &names.name_server);
    let mut name_server = Connection::open(&names.name_server);
    for (permission, expected) in [(6, "\"perm\":6"), (4, "\"perm\":4"), (6, "\"perm\":6")] {
        // A killed broker takes no leave.
        let mut broker = setup.clone().set("broker.permission", permission).start();
        assert_eq!(create(&mut Connection::open(&broker.broker), "drained").code, response::SUCCESS);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = route(&mut name_server, "drained");
            if answer.code == response::SUCCESS && String::from_utf8_lossy(&answer.body).contains(expected) {
                break;
            }
            assert!(Instant::now() < deadline, "{permission}: {answer:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        broker.kill();
    }
}
