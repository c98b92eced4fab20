//! The official `mqadmin` prints for Sluice what it prints for an official broker that holds the same.

use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::{CLIENT_VERSIONS, JavaBroker, JavaNameServer, mqadmin, start_program, wait_until_started};
use conformance::sluice::Setup;
use wire::rocketmq::code::{request, response};

/// One side of the comparison.
struct Side {
    name_server: String,
    broker: String,
    /// Ids of the first message of the topic: by offset, by producer.
    offset_id: String,
}

const UNIQUE_KEY: &str = "7F00000100002A9F0000000000000001";

impl Side {
    /// Fills a broker with what both have.
    fn fill(name_server: &str, broker: &str) -> Self {
        let mut connection = Connection::open(broker);
        for (name, queues) in [("orders", "2"), ("%RETRY%billing", "1")] {
            let topic = [
                ("topic", name),
                ("defaultTopic", "TBW102"),
                ("readQueueNums", queues),
                ("writeQueueNums", queues),
                ("perm", "6"),
                ("topicFilterType", "SINGLE_TAG"),
                ("order", "false"),
            ];
            assert_eq!(connection.call(request::UPDATE_AND_CREATE_TOPIC, &topic, &[]).code, response::SUCCESS);
        }
        let group = br#"{"groupName":"billing"}"#;
        assert_eq!(connection.call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], group).code, response::SUCCESS);
        let mut offset_id = String::new();
        for number in 0..10 {
            let unique = format!("{}{number:X}", &UNIQUE_KEY[..31]);
            let properties =
                format!("KEYS\u{1}order{number} all\u{2}TAGS\u{1}new\u{2}UNIQ_KEY\u{1}{unique}\u{2}WAIT\u{1}true\u{2}");
            let sent = connection.send_message("orders", number % 2, &properties, b"hello");
            assert_eq!(sent.code, response::SUCCESS, "{}", sent.remark);
            if number == 1 {
                sent.field("msgId").clone_into(&mut offset_id);
            }
        }
        for queue in ["0", "1"] {
            let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", queue), ("commitOffset", "3")];
            assert_eq!(connection.call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]).code, response::SUCCESS);
        }
        Self { name_server: name_server.to_owned(), broker: broker.to_owned(), offset_id }
    }

    fn run(&self, command: &str) -> Vec<String> {
        let command = command.replace("{broker}", &self.broker).replace("{id}", &self.offset_id);
        let mut arguments: Vec<_> = command.split(' ').collect();
        arguments.extend(["-n", &self.name_server]);
        self.normalize(&mqadmin(&arguments))
    }

    /// What must differ between two brokers is replaced: addresses, ids made of them, times, and where in the log a record is, for the log of
    /// Sluice begins with records of topics.
    fn normalize(&self, text: &str) -> Vec<String> {
        let text =
            text.replace(&self.broker, "BROKER").replace(&self.name_server, "NAMES").replace(&self.offset_id, "ID");
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "))
            .map(
                |line| if line.starts_with("CommitLog Offset:") { "CommitLog Offset: OFFSET".to_owned() } else { line },
            )
            .filter(|line| !line.is_empty())
            .collect();
        // Tables are printed in the order of hash maps.
        lines.sort();
        lines
    }
}

/// What a command prints for the one and for the other; both are asked at once, as most of the time goes into starting the tool.
fn run_for_both(ours: &Side, theirs: &Side, command: &str) -> (Vec<String>, Vec<String>) {
    std::thread::scope(|scope| {
        let of_theirs = scope.spawn(|| theirs.run(command));
        (ours.run(command), of_theirs.join().expect("it runs"))
    })
}

/// A word with what is a date, a time or the offset at the end of an index key taken out.
fn word(word: &str) -> String {
    if let Some((key, _offset)) = word.rsplit_once('@').filter(|(key, _)| key.contains("@K@")) {
        return format!("{key}@OFFSET");
    }
    let is_time =
        word.len() >= 8 && word.chars().all(|c| c.is_ascii_digit() || "-:,.".contains(c)) && word.contains([':', '-']);
    if is_time { "TIME".to_owned() } else { word.to_owned() }
}

const SAME: [&str; 10] = [
    "topicRoute -t orders",
    "topicStatus -t orders",
    "updateTopic -b {broker} -t made -r 3 -w 3",
    "consumerProgress -g billing",
    "updateSubGroup -b {broker} -g made",
    "queryMsgById -i {id} -t orders",
    "queryMsgByKey -t orders -k order3",
    "queryMsgByUniqueKey -t orders -i 7F00000100002A9F0000000000000004",
    "resetOffsetByTime -g billing -t orders -s 0",
    "deleteTopic -c DefaultCluster -t made",
];

#[test]
fn mqadmin_prints_the_same_for_both() {
    let scratch = tempfile::tempdir().expect("directory");
    let names = JavaNameServer::start(&scratch.path().join("names"));
    let java = JavaBroker::start(&scratch.path().join("java"), &names.address, &[]);
    let sluice = Setup::serve(&scratch.path().join("data")).start();
    let theirs = Side::fill(&names.address, &java.address);
    let ours = Side::fill(&sluice.name_server, &sluice.broker);
    let run = |command| run_for_both(&ours, &theirs, command);
    for command in SAME {
        let (our_lines, their_lines) = run(command);
        assert_eq!(our_lines, their_lines, "{command}");
    }
    let columns = |lines: Vec<String>| lines.into_iter().find(|line| line.starts_with('#'));
    let (our_lines, their_lines) = run("clusterList");
    assert_eq!(columns(our_lines), columns(their_lines));
    let (our_topics, their_topics) = run("topicList");
    let of_features_to_come =
        |topic: &str| ["_REPLY_TOPIC", "_TRANS_", "rmq_sys_"].iter().any(|part| topic.contains(part));
    assert_eq!(our_topics, their_topics.into_iter().filter(|topic| !of_features_to_come(topic)).collect::<Vec<_>>());
    let keys = |lines: Vec<String>| -> Vec<String> {
        lines.iter().filter_map(|line| line.split([' ', ':']).next()).map(str::to_owned).collect()
    };
    let (our_lines, their_lines) = run("brokerStatus -b {broker}");
    let our_keys = keys(our_lines);
    for key in keys(their_lines) {
        let of_one_directory = key.starts_with("commitLogDiskRatio_");
        assert!(our_keys.contains(&key) || of_one_directory, "brokerStatus lacks {key}");
    }
}

/// The one member of a group. On a machine that is busy its first heartbeat may fail; it sends another 30 s later.
fn member_of(group: &str, connection: &mut Connection) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let members = connection.call(request::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", group)], &[]);
        let list: serde_json::Value = serde_json::from_slice(&members.body).unwrap_or_default();
        if let Some(client_id) = list["consumerIdList"][0].as_str() {
            return client_id.to_owned();
        }
        assert!(Instant::now() < deadline, "nobody is in {group}: {members:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn mqadmin_asks_consumers_through_the_broker() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = Setup::serve(&scratch.path().join("data")).start();
    let mut connection = Connection::open(&sluice.broker);
    let sent = connection.send_message("orders", 0, "WAIT\u{1}true\u{2}", b"hello");
    assert_eq!(sent.code, response::SUCCESS, "{}", sent.remark);
    for version in CLIENT_VERSIONS {
        let group = format!("askers-{}", version.replace('.', "-"));
        let logs = scratch.path().join(version);
        std::fs::create_dir(&logs).expect("a folder");
        // It waits for a second message, which never comes.
        let flags = [("topic", "orders"), ("group", &*group), ("expect", "2"), ("limit-seconds", "300")];
        let _consumer = start_program(version, "Consume", &sluice.name_server, &logs, &flags);
        wait_until_started(&logs);
        let client_id = member_of(&group, &mut connection);
        let status = mqadmin(&["consumerStatus", "-g", &group, "-i", &client_id, "-n", &sluice.name_server]);
        for part in
            ["#Consumer Properties#", "#Consumer Subscription#", "Topic: orders", "PROP_CONSUMER_START_TIMESTAMP"]
        {
            assert!(status.contains(part), "{version}: {part} is not in {status}");
        }
        let id = sent.field("msgId");
        let asked =
            ["queryMsgById", "-t", "orders", "-i", id, "-g", &group, "-d", &client_id, "-n", &sluice.name_server];
        let consumed = mqadmin(&asked);
        assert!(consumed.contains("CR_SUCCESS"), "{version}: {consumed}");
    }
}
