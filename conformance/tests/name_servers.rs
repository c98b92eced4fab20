//! Several name servers, of which any one may be lost: it is killed, or it hangs and answers nobody.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::free_port;
use conformance::java::{result_of, run_program, start_program, wait_until_started};
use conformance::sluice::{Setup, Sluice};
use rustix::process::{Pid, Signal, kill_process};
use wire::rocketmq::code::{request, response};

const TOPIC: &str = "orders";
/// What a name server that lives knows of a broker's change.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);
/// A broker tries a name server that is away every second.
const BACK_WITHIN: Duration = Duration::from_secs(10);
/// Clients wait this long for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// A stopping broker takes its leave of a name server that hangs for no longer.
const LEFT_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Killed,
    Hangs,
}

/// Three of them, with ports that stay the same.
struct NameServers {
    setups: Vec<Setup>,
    running: Vec<Sluice>,
}

impl NameServers {
    fn start(scratch: &Path) -> Self {
        let setup = |number: usize| {
            Setup::name_server(&scratch.join(format!("names-{number}"))).set("nameserver.port", free_port())
        };
        let setups: Vec<_> = (0..3).map(setup).collect();
        let running = setups.iter().map(Setup::start).collect();
        Self { setups, running }
    }

    /// As clients and brokers are told of them.
    fn addresses(&self) -> String {
        self.running.iter().map(|names| &*names.name_server).collect::<Vec<_>>().join(";")
    }

    fn signal(&self, number: usize, signal: Signal) {
        kill_process(Pid::from_raw(self.running[number].id() as i32).expect("a process"), signal).expect("signalled");
    }

    fn lose(&mut self, number: usize, loss: Loss) {
        match loss {
            Loss::Killed => self.running[number].kill(),
            Loss::Hangs => self.signal(number, Signal::STOP),
        }
    }

    fn restore(&mut self, number: usize, loss: Loss) {
        match loss {
            Loss::Killed => self.running[number] = self.setups[number].start(),
            Loss::Hangs => self.signal(number, Signal::CONT),
        }
    }

    /// Waits until what each but `lost` says is so.
    fn until_known(&self, lost: Option<usize>, limit: Duration, is_so: impl Fn(&mut Connection) -> bool) {
        let began = Instant::now();
        for names in (0..3).filter(|number| Some(*number) != lost).map(|number| &self.running[number]) {
            let mut connection = Connection::open(&names.name_server);
            while !is_so(&mut connection) {
                assert!(began.elapsed() < limit, "{} does not know", names.name_server);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn has_queues(names: &mut Connection, topic: &str, queues: u32) -> bool {
    let answer = names.call(request::GET_ROUTE_BY_TOPIC, &[("topic", topic)], &[]);
    let count = format!("\"writeQueueNums\":{queues}");
    answer.code == response::SUCCESS && String::from_utf8_lossy(&answer.body).contains(&count)
}

#[test]
fn a_change_of_a_broker_is_known_to_every_living_name_server_within_a_second() {
    for loss in [Loss::Killed, Loss::Hangs] {
        for lost in 0..3 {
            let scratch = tempfile::tempdir().expect("directory");
            let mut names = NameServers::start(scratch.path());
            let start = |name: &str| {
                let setup = Setup::broker(&scratch.path().join(name), &names.addresses()).set("brokerName", name);
                setup.start()
            };
            let (changing, mut stopping, mut dying) = (start("changing"), start("stopping"), start("dying"));
            for broker in [&changing, &stopping, &dying] {
                names.until_known(None, BACK_WITHIN, |names| names.cluster_info().contains(&broker.broker));
            }
            names.lose(lost, loss);
            let knows = |is_so: &dyn Fn(&mut Connection) -> bool| names.until_known(Some(lost), KNOWN_WITHIN, is_so);
            for queues in [4, 8, 5] {
                std::thread::scope(|scope| {
                    let began = Instant::now();
                    let making = scope.spawn(|| Connection::open(&changing.broker).make_topic("made", queues));
                    knows(&|names| has_queues(names, "made", queues));
                    making.join().expect("it is answered");
                    assert!(began.elapsed() < PATIENCE, "{loss:?}: {:?}", began.elapsed());
                });
            }
            // One that was made by sending to it.
            assert_eq!(Connection::open(&changing.broker).send_message("came", 0, "", b"x").code, response::SUCCESS);
            knows(&|names| has_queues(names, "came", 4));
            dying.kill();
            knows(&|names| !names.cluster_info().contains(&dying.broker));
            let gone = stopping.broker.clone();
            std::thread::scope(|scope| {
                let began = Instant::now();
                let stop = scope.spawn(|| stopping.stop());
                knows(&|names| !names.cluster_info().contains(&gone));
                assert!(stop.join().expect("it stops").success());
                println!("{loss:?} {lost}: stopped in {:?}", began.elapsed());
                assert!(began.elapsed() < LEFT_WITHIN, "{loss:?}: {:?}", began.elapsed());
            });
            names.restore(lost, loss);
            names.until_known(None, BACK_WITHIN, |names| {
                let brokers = names.cluster_info();
                has_queues(names, "made", 5)
                    && has_queues(names, "came", 4)
                    && !brokers.contains(&gone)
                    && !brokers.contains(&dying.broker)
            });
        }
    }
}

#[test]
fn official_clients_go_on_while_any_name_server_is_away() {
    let scratch = tempfile::tempdir().expect("directory");
    let path = scratch.path();
    let mut names = NameServers::start(path);
    let addresses = names.addresses();
    let broker = Setup::broker(&path.join("data"), &addresses).start();
    Connection::open(&broker.broker).make_topic(TOPIC, 4);
    let file = |name: &str| path.join(name).display().to_string();
    let (over, count) = (file("over"), file("count"));
    let flags =
        [("topic", TOPIC), ("group", "orders"), ("orderly", ""), ("expect-file", &*count), ("limit-seconds", "600")];
    let consumer = start_program("5.4.0", "Consume", &addresses, path, &flags);
    wait_until_started(path);
    // None of its sends may fail.
    let flags = [
        ("topic", TOPIC),
        ("mode", "ordered"),
        ("threads", "2"),
        ("pause-micros", "2000"),
        ("until-file", &*over),
        ("limit-seconds", "600"),
    ];
    let producer = start_program("4.9.7", "Produce", &addresses, path, &flags);
    for loss in [Loss::Killed, Loss::Hangs] {
        for lost in 0..3 {
            names.lose(lost, loss);
            // Whoever comes now finds his way too, at the latest from the second name server he asks.
            let topic = format!("new-{loss:?}-{lost}");
            Connection::open(&broker.broker).make_topic(&topic, 4);
            for version in ["4.9.7", "5.4.0"] {
                let began = Instant::now();
                let flags = [("topic", &*topic), ("count", "100"), ("retry-forever", "")];
                assert_eq!(run_program(version, "Produce", &addresses, path, &flags)["ok"], 100);
                println!("{loss:?} {lost}: {version} has sent after {:?}", began.elapsed());
            }
            names.restore(lost, loss);
            names.until_known(None, BACK_WITHIN, |names| has_queues(names, &topic, 4));
        }
    }
    fs::write(&over, "").expect("writes");
    let produced = result_of(producer, path, Duration::from_secs(120));
    assert_eq!(produced["failed"], 0, "{produced}");
    fs::write(&count, format!("{}\n", produced["ok"])).expect("writes");
    let consumed = result_of(consumer, path, Duration::from_secs(120));
    println!("{consumed}");
    assert_eq!((&consumed["again"], &consumed["duplicates"]), (&0.into(), &0.into()), "{consumed}");
}
