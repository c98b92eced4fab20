//! What the settings promise as a whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: PathBuf::from(path), text: text.to_owned() }
}

fn load_text(role: Role, path: &str, text: &str) -> Result<Loaded, Errors> {
    load(role, Some(&file(path, text)), &[], &[])
}

fn load_set(pairs: &[&str]) -> Result<Loaded, Errors> {
    let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
    load(Role::Broker, None, &pairs, &[])
}

fn broker_file(text: &str) -> Result<Loaded, Errors> {
    load_text(Role::Broker, "broker.conf", text)
}

fn toml_file(text: &str) -> Result<Loaded, Errors> {
    load_text(Role::Serve, "sluice.toml", text)
}

/// Files that say where to listen and store, so that only what a test is about is noticed.
fn quiet_broker_file(text: &str) -> Result<Loaded, Errors> {
    broker_file(&format!("{text}\nbindAddress=0.0.0.0\nstorePathRootDir=/data/store\n"))
}

fn only_error(result: Result<Loaded, Errors>) -> String {
    let errors = result.unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    errors.to_string()
}

fn notices(loaded: &Loaded) -> Vec<String> {
    loaded.notices.iter().map(ToString::to_string).collect()
}

const BROKER_CONF: &str = "\
# An operator's file for one master.
brokerClusterName = production
brokerName=broker-east
brokerId=0
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
brokerIP1=10.0.0.7
listenPort=10921
brokerRole=ASYNC_MASTER
flushDiskType=SYNC_FLUSH
deleteWhen=04;16
fileReservedTime=48
diskMaxUsedSpaceRatio=88
storePathRootDir=/data/rocketmq/store
storePathCommitLog=/log/rocketmq/commitlog
storePathConsumeQueue=/data/rocketmq/store/consumequeue
mapedFileSizeCommitLog=1073741824
mapedFileSizeConsumeQueue=6000000
maxMessageSize=65536
defaultTopicQueueNums=4
autoCreateTopicEnable=false
autoCreateSubscriptionGroup=FALSE
sendMessageThreadPoolNums=128
waitTimeMillsInSendQueue=500
aclEnable=false
slaveReadEnable=true
messageDelayLevel=1s 5s \\
                  10s 1h
bindAddress:0.0.0.0
";

#[test]
fn a_rocketmq_broker_file_is_taken_as_it_is() {
    let loaded = broker_file(BROKER_CONF).unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.broker.cluster, "production");
    assert_eq!(settings.broker.name, "broker-east");
    assert_eq!(settings.broker.name_servers, ["10.0.0.1:9876", "10.0.0.2:9876"]);
    assert_eq!(settings.broker.role, BrokerRole::AsyncMaster);
    assert_eq!(settings.advertised_host(), Some("10.0.0.7"));
    assert_eq!(settings.listen.host, "0.0.0.0");
    assert_eq!((settings.rocketmq.port, settings.nameserver.port), (10_921, 9_876));
    assert_eq!(settings.storage.flush, FlushMode::Sync);
    assert_eq!(settings.storage.directory, Path::new("/data/rocketmq/store"));
    assert_eq!(settings.log_directory(), Path::new("/log/rocketmq/commitlog"));
    assert_eq!(settings.storage.segment_size, 1 << 30);
    assert_eq!(settings.storage.queue_file_entries, 300_000);
    assert_eq!(settings.retention.delete_hours, [4, 16]);
    assert_eq!(settings.retention.age, Duration::from_secs(48 * 3600));
    assert_eq!(settings.retention.disk_used_percent, 88);
    assert_eq!(settings.message.size_max, 65_536);
    assert_eq!(settings.topic.default_queues, 4);
    assert!(!settings.topic.auto_create && !settings.group.auto_create);
    let levels: Vec<u64> = settings.delay.levels.iter().map(Duration::as_secs).collect();
    assert_eq!(levels, [1, 5, 10, 3600]);
}

#[test]
fn what_has_no_effect_is_said_once_with_its_line_and_reason() {
    let loaded = broker_file(BROKER_CONF).unwrap();
    let said = notices(&loaded);
    assert_eq!(said.len(), 5, "{said:#?}");
    for start in [
        "broker.conf:15: storePathConsumeQueue is not needed: RocketMQ does not read it either",
        "broker.conf:22: sendMessageThreadPoolNums is not needed: requests have no thread pools",
        "broker.conf:23: waitTimeMillsInSendQueue is not needed: ",
        "broker.conf:24: aclEnable changes nothing; it leaves out access control",
        "broker.conf:12: retention.disk_used_percent is 88, above retention.disk_force_percent",
    ] {
        assert!(said.iter().any(|line| line.starts_with(start)), "{start}\n{said:#?}");
    }
    let warnings = loaded.notices.iter().filter(|notice| notice.level == Level::Warning);
    assert_eq!(warnings.count(), 1);
}

#[test]
fn listen_port_is_the_name_servers_in_a_name_server_file() {
    let text = "listenPort=9877\nbindAddress=0.0.0.0\norderMessageEnable=true\n\
                scanNotActiveBrokerInterval=5000\nkvConfigPath=/etc/kv.json\n";
    let loaded = load_text(Role::NameServer, "namesrv.properties", text).unwrap();
    assert_eq!(loaded.settings.nameserver.port, 9_877);
    assert_eq!(loaded.settings.rocketmq.port, 10_911);
    assert!(loaded.settings.nameserver.order_messages);
    assert_eq!(loaded.settings.kv_path(), Path::new("/etc/kv.json"));
    assert!(loaded.notices.is_empty(), "{:#?}", loaded.notices);
}

#[test]
fn a_rocketmq_file_that_leaves_out_where_to_listen_or_store_is_told_so() {
    let said = notices(&broker_file("brokerName=broker-a").unwrap());
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].starts_with("listen.host is 127.0.0.1; RocketMQ would listen on 0.0.0.0"));
    assert!(said[1].starts_with("storage.directory is ./sluice-data; RocketMQ would use"));
    assert!(toml_file("broker.name = 'broker-a'").unwrap().notices.is_empty());
}

#[test]
fn a_file_that_has_clients_told_the_address_listened_on_is_not_told_of_another() {
    let of = |ip: &str| notices(&broker_file(&format!("storePathRootDir=/data\nbrokerIP1={ip}")).unwrap());
    assert!(of("127.0.0.1").is_empty(), "{:#?}", of("127.0.0.1"));
    assert!(of("10.0.0.7")[0].starts_with("listen.host is 127.0.0.1"), "clients would not reach it");
}

#[test]
fn a_key_whose_words_are_in_another_order_is_recognised_and_told_what_it_is() {
    assert_eq!(
        only_error(broker_file("enableAcl=true")),
        "broker.conf:1: unknown setting `enableAcl`; did you mean `aclEnable` (access control, not supported yet)?"
    );
    assert_eq!(
        only_error(broker_file("transactionTimeout=6000")),
        "broker.conf:1: unknown setting `transactionTimeout`; did you mean `transactionTimeOut` (transactions, not supported yet)?"
    );
}

#[test]
fn a_part_of_a_name_is_explained_by_the_names_that_have_it() {
    let found = reference::matches("flush").expect("some have it");
    for words in ["storage.flush ", "storage.flush_interval ", "flushDiskType", "flushIntervalCommitLog"] {
        assert!(found.contains(words), "[{words}] in: {found}");
    }
    assert!(!found.contains("broker.name "), "{found}");
    assert!(reference::matches("FLUSH").is_some(), "letter case does not count");
    assert!(reference::matches("storage.flsh").expect("it looks like one").contains("storage.flush "));
    let acl = reference::matches("enableAcl").expect("it looks like one");
    assert!(acl.contains("aclEnable  belongs to access control, not supported yet"), "{acl}");
    assert_eq!(reference::matches("xyzzyplugh"), None);
}

#[test]
fn a_typo_names_the_nearest_key() {
    assert_eq!(
        only_error(broker_file("brokerName=a\n\nflushDiskTyp=SYNC_FLUSH")),
        "broker.conf:3: unknown setting `flushDiskTyp`; did you mean `flushDiskType`?"
    );
    assert_eq!(
        only_error(toml_file("[storage]\nsegmentsize = 5")),
        "sluice.toml:2: unknown setting `storage.segmentsize`; did you mean \
         `storage.segment_size`?"
    );
    assert_eq!(
        only_error(load_set(&["xyzzyplugh=1"])),
        "--set: unknown setting `xyzzyplugh`; `sluice config --default` lists all settings"
    );
}

#[test]
fn a_wrong_type_says_what_was_found_and_what_is_expected() {
    assert_eq!(
        only_error(toml_file("\nrocketmq.port = \"10911\"")),
        "sluice.toml:2: `rocketmq.port` is the text \"10911\"; expected a whole number from 0 to \
         65535"
    );
    assert_eq!(
        only_error(toml_file("storage.flush_interval = 500")),
        "sluice.toml:1: `storage.flush_interval` is the number 500; expected a time from 1ms to \
         1h with its unit (ms, s, m, h, d)"
    );
    assert_eq!(
        only_error(broker_file("autoCreateTopicEnable=yes")),
        "broker.conf:1: `autoCreateTopicEnable` is yes; expected true or false"
    );
    assert_eq!(
        only_error(broker_file("fileReservedTime=72h")),
        "broker.conf:1: `fileReservedTime` is 72h; expected a whole number, in h, without the unit"
    );
    assert_eq!(
        only_error(broker_file("flushDiskType=sync")),
        "broker.conf:1: `flushDiskType` is sync; expected one of: ASYNC_FLUSH, SYNC_FLUSH"
    );
}

#[test]
fn toml_types_are_kept_apart() {
    for text in [
        "listen.host = true",
        "topic.auto_create = \"true\"",
        "topic.auto_create = 1",
        "broker.name = 5",
        "broker.name = [\"a\"]",
        "query.messages_max = 1.5",
        "log = \"info\"",
        "[[storage]]\nflush = \"sync\"",
        "[storage.flush]\nmode = \"sync\"",
    ] {
        assert_eq!(toml_file(text).unwrap_err().0.len(), 1, "{text}");
    }
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    assert_eq!(
        only_error(load_set(&["listenPort=70000"])),
        "--set: `listenPort` is 70000; expected a whole number from 0 to 65535"
    );
    for pair in [
        "storage.segment_size=2GiB",
        "retention.delete_hours=24",
        "retention.disk_used_percent=101",
        "broker.permission=8",
        "defaultTopicQueueNums=-1",
        "topic.default_queues=0",
        "broker.registration_interval=2m",
        "broker.host=10.0.0.1:10911",
        "broker.name_servers=10.0.0.1",
        "broker.name=",
        "storePathCommitLog=/disk1/log,/disk2/log",
    ] {
        assert!(only_error(load_set(&[pair])).contains("expected"), "{pair}");
    }
}

#[test]
fn every_error_of_a_file_is_reported_at_once() {
    let errors = toml_file("rocketmq.port = -1\nlog.format = \"xml\"\nnonsense = 1").unwrap_err();
    assert_eq!(errors.to_string().lines().count(), 3, "{errors}");
}

#[test]
fn two_names_of_one_setting_must_agree() {
    let agreeing = "mapedFileSizeCommitLog=1048576\nmappedFileSizeCommitLog=1048576";
    let loaded = quiet_broker_file(agreeing).unwrap();
    assert_eq!(loaded.settings.storage.segment_size, 1 << 20);
    assert_eq!(
        only_error(broker_file("mapedFileSizeCommitLog=1048576\nmappedFileSizeCommitLog=2097152")),
        "broker.conf:2: `mappedFileSizeCommitLog` is 2097152, but `mapedFileSizeCommitLog` is \
         1048576 at broker.conf:1; both mean `storage.segment_size`"
    );
    only_error(broker_file("flushDiskType=SYNC_FLUSH\nstorage.flush=async"));
}

#[test]
fn of_one_key_given_twice_the_last_counts_and_that_is_said() {
    let loaded = quiet_broker_file("brokerName=a\nregionId=r\nbrokerName=b").unwrap();
    assert_eq!(loaded.settings.broker.name, "b");
    assert_eq!(notices(&loaded), ["broker.conf:1: brokerName is overruled by line 3"]);
}

#[test]
fn flags_overrule_set_and_set_overrules_the_file() {
    let file = file("sluice.toml", "[broker]\nname = \"file\"\nregion = \"file\"\ncluster = \"file\"");
    let set = ["broker.name=set".to_owned(), "regionId=set".to_owned()];
    let flags = [("broker.name", "flag".to_owned())];
    let loaded = load(Role::Serve, Some(&file), &set, &flags).unwrap();
    let broker = &loaded.settings.broker;
    assert_eq!((broker.name.as_str(), broker.region.as_str(), broker.cluster.as_str()), ("flag", "set", "file"));
    let place = |name| loaded.effective.iter().find(|row| row.name == name).unwrap().place.clone();
    assert_eq!(place("broker.name"), Place::Flag);
    assert_eq!(place("broker.region"), Place::Set);
    assert_eq!(place("broker.cluster").line(), Some(4));
    assert_eq!(place("broker.permission"), Place::Default);
}

#[test]
fn set_needs_a_key_and_a_value() {
    assert_eq!(only_error(load_set(&["sync"])), "--set: `sync` is not of the form key=value");
    let loaded = load_set(&["namesrvAddr=a:1;b:2", "broker.host="]).unwrap();
    assert_eq!(loaded.settings.broker.name_servers, ["a:1", "b:2"]);
    assert_eq!(loaded.settings.broker.host, None);
}

#[test]
fn asking_for_what_would_be_unsafe_to_leave_out_is_an_error() {
    for (pair, feature) in [
        ("aclEnable=true", "access control"),
        ("authenticationEnabled=true", "access control"),
        ("authorizationEnabled=TRUE", "access control"),
        ("enableControllerMode=true", "controller mode"),
        ("enableControllerInNamesrv=true", "controller mode"),
        ("enableDLegerCommitLog=true", "DLedger replication"),
        ("tls.server.keyPassword=secret", "openssl pkey -in KEY -out PLAIN"),
        ("tls.config.file=/etc/rocketmq/tls.properties", "can stand in this file"),
        ("storeType=defaultRocksDB", "RocksDB"),
        ("configManagerVersion=v2", "RocksDB"),
        ("readOnlyCommitLogStorePaths=/old", "several directories"),
    ] {
        let error = only_error(load_set(&[pair]));
        assert!(error.contains(feature) && error.contains("comes later"), "{error}");
    }
}

#[test]
fn a_slave_is_set_by_rocketmqs_names_and_has_a_number_of_its_own() {
    let pairs = ["brokerRole=SLAVE", "brokerId=1", "haMasterAddress=m:10912", "slaveReadEnable=true"];
    let settings = load_set(&pairs).unwrap().settings;
    assert_eq!((settings.broker.role, settings.broker.id), (BrokerRole::Slave, 1));
    assert_eq!((settings.replication.master, settings.replication.slave_reads), (vec!["m:10912".to_owned()], true));
    for (pair, expected) in [("broker.role=slave", "above 0 for a slave"), ("brokerId=1", "set broker.role to slave")] {
        let error = only_error(load_set(&[pair]));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn replicas_are_set_by_rocketmqs_names() {
    let pairs = [
        "brokerRole=SYNC_MASTER",
        "haListenPort=10999",
        "inSyncReplicas=3",
        "haMaxGapNotInSync=1048576",
        "slaveTimeout=1500",
        "haSendHeartbeatInterval=2000",
        "haHousekeepingInterval=9000",
    ];
    let settings = load_set(&pairs).unwrap().settings;
    let replication = &settings.replication;
    assert_eq!(settings.broker.role, BrokerRole::SyncMaster);
    assert_eq!((settings.replication_port(), replication.copies, replication.gap_max), (10_999, 3, 1 << 20));
    let times = [replication.timeout, replication.heartbeat_interval, replication.silence_max];
    assert_eq!(times.map(|time| time.as_millis()), [1500, 2000, 9000]);
    assert_eq!(load_set(&["listenPort=20911"]).unwrap().settings.replication_port(), 20_912);
    assert_eq!(load_set(&["rocketmq.port=0"]).unwrap().settings.replication_port(), 0);
    let taken = only_error(load_set(&["rocketmq.port=20911", "haListenPort=20911"]));
    assert!(taken.contains("`replication.port`"), "{taken}");
}

#[test]
fn tls_is_set_by_rocketmqs_names_and_what_would_not_protect_is_refused() {
    let tls = |pairs: &[&str]| load_set(pairs).map(|loaded| loaded.settings.tls);
    let certificate = ["tls.server.certPath=/c.pem", "tls.server.keyPath=/k.pem"];
    assert_eq!(tls(&[]).unwrap().mode(), TlsMode::Disabled);
    assert_eq!(tls(&certificate).unwrap().mode(), TlsMode::Permissive);
    assert_eq!(tls(&["tls.self_signed=true"]).unwrap().mode(), TlsMode::Permissive);
    let with = |more: &[&'static str]| tls(&[&certificate[..], more].concat());
    assert_eq!(with(&["tls.server.mode=disabled"]).unwrap().mode(), TlsMode::Disabled);
    let guarded = ["tls.server.need.client.auth=require", "tls.server.trustCertPath=/ca.pem", "tls.mode=enforcing"];
    assert_eq!(with(&guarded).unwrap().client_auth, ClientAuth::Require);
    for (pairs, told) in [
        (&["tls.server.mode=enforcing"][..], "tls.certificate"),
        (&["tls.server.mode=permissive"], "tls.certificate"),
        (&["tls.certificate=/c.pem"], "tls.key"),
        (&["tls.key=/k.pem"], "tls.certificate"),
        (&["tls.certificate=/c.pem", "tls.key=/k.pem", "tls.self_signed=true"], "tls.self_signed"),
        (&["tls.self_signed=true", "tls.client_auth=require"], "tls.client_ca"),
        (&["amqp.tls_port=5671"], "tls.certificate"),
        (&["amqp.tls_port=5671", "tls.self_signed=true", "tls.mode=disabled"], "tls.mode"),
        (&["amqp.tls_port=8080", "tls.self_signed=true"], "`amqp.tls_port`"),
        (&["useTLS=true"], "tls.outbound_ca"),
        (&["useTLS=true", "tls.client.trustCertPath=/ca.pem", "tls.client.certPath=/c.pem"], "tls.outbound_key"),
    ] {
        let error = only_error(load_set(pairs));
        assert!(error.contains(told), "{pairs:?}: {error}");
    }
    assert!(tls(&["useTLS=true", "tls.client.authServer=false"]).unwrap().outbound);
    let open = load_set(&["tls.self_signed=true", "tls.client_auth=require", "tls.client_ca=/ca.pem"]).unwrap();
    assert!(notices(&open).iter().any(|notice| notice.contains("plain clients")), "{:?}", notices(&open));
}

#[test]
fn switching_on_a_feature_that_is_not_there_is_a_warning_that_names_it() {
    for (pair, feature) in [
        ("enablePropertyFilter=true", "filters by SQL"),
        ("timerWheelEnable=true", "timed to the second"),
        ("totalReplicas=3", "replication"),
        ("messageStorePlugIn=org.example.Store", "plug-ins"),
    ] {
        let loaded = load_set(&[pair]).unwrap();
        let [notice] = loaded.notices.as_slice() else { panic!("{:?}", loaded.notices) };
        assert_eq!(notice.level, Level::Warning, "{pair}");
        assert!(notice.text.contains(feature), "{}", notice.text);
    }
    let loaded = load_set(&["transactionCheckMax=15"]).unwrap();
    assert_eq!(loaded.notices[0].level, Level::Info);
}

#[test]
fn a_toml_file_uses_our_names_and_is_told_ours_for_rocketmqs() {
    assert_eq!(
        only_error(toml_file("flushDiskType = \"SYNC_FLUSH\"")),
        "sluice.toml:1: `flushDiskType` is RocketMQ's name; a TOML file says `storage.flush`"
    );
    only_error(toml_file("aclEnable = true"));
}

#[test]
fn nothing_advertised_means_that_it_is_to_be_found() {
    let host = |pairs: &[&str]| load_set(pairs).unwrap().settings.advertised_host().map(str::to_owned);
    assert_eq!(host(&[]).as_deref(), Some("127.0.0.1"));
    assert_eq!(host(&["listen.host=0.0.0.0"]), None);
    assert_eq!(host(&["listen.host=::", "brokerIP1=10.0.0.7"]).as_deref(), Some("10.0.0.7"));
    only_error(load_set(&["brokerIP1=0.0.0.0"]));
}

#[test]
fn two_services_cannot_share_a_port_but_each_may_take_any() {
    assert_eq!(
        only_error(load_set(&["rocketmq.port=8080"])),
        "`rocketmq.port` and `console.port` are both 8080; expected different ports"
    );
    assert!(load_set(&["rocketmq.port=9876"]).is_ok());
    let any = "nameserver.port = 0\nrocketmq.port = 0\nconsole.port = 0";
    assert!(toml_file(any).is_ok());
    assert!(toml_file("rocketmq.port = 9876").is_err());
}

/// Name, port and directory of each broker.
fn brokers(pairs: &[&str]) -> Vec<(String, u16, PathBuf)> {
    let brokers = load_set(pairs).unwrap().settings.brokers().into_iter().map(|one| one.settings);
    brokers.map(|one| (one.broker.name, one.rocketmq.port, one.storage.directory)).collect()
}

#[test]
fn every_directory_has_a_broker_of_its_own() {
    let own = |name: &str, port, directory: &str| (name.to_owned(), port, PathBuf::from(directory));
    assert_eq!(brokers(&[]), [own("broker-a", 10_911, "./sluice-data")]);
    let named = ["storage.dirs=/1/x;/2/x;/3/x", "broker.name=east", "rocketmq.port=20000"];
    let (first, third) = (own("east", 20_000, "/1/x"), own("east-3", 20_020, "/3/x"));
    assert_eq!(brokers(&named), [first, own("east-2", 20_010, "/2/x"), third.clone()]);
    let any_port: Vec<_> = brokers(&["storage.dirs=/1;/2", "rocketmq.port=0"]).into_iter().map(|one| one.1).collect();
    assert_eq!(any_port, [0, 0]);
    // What is taken out leaves its position free, and what belongs to no broker moves to the first that is left.
    let loaded = load_set(&["storage.dirs=;;/3/x", "broker.name=east", "rocketmq.port=20000"]).unwrap();
    assert_eq!(brokers(&["storage.dirs=;;/3/x", "broker.name=east", "rocketmq.port=20000"]), [third]);
    assert_eq!(loaded.settings.kv_path(), Path::new("/3/x/nameserver/kvConfig.json"));
    let array = toml_file("[storage]\ndirs = ['/1', '/2']").unwrap().settings.brokers();
    assert_eq!(array.iter().map(|one| one.position).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(array[1].settings.log_directory(), Path::new("/2/commitlog"));
}

#[test]
fn one_directory_and_several_exclude_each_other() {
    let file = file("sluice.toml", "storage.dirs = ['/1', '/2']");
    let error = load(Role::Serve, Some(&file), &[], &[("storage.directory", "/3".to_owned())]);
    assert_eq!(
        only_error(error),
        "`storage.dirs` (sluice.toml:1) and `storage.directory` (command line) are both set; expected one of them"
    );
    let error = only_error(load_set(&["storage.dirs=/1;/2", "storePathCommitLog=/log"]));
    assert!(error.contains("storage.log_directory"), "{error}");
    assert!(only_error(load_set(&["storePathCommitLog=/1,/2"])).contains("storage.dirs"));
    only_error(toml_file("storage.dirs = ['/1;/2']"));
    assert!(load_set(&["storage.dirs=", "storage.directory=/1"]).is_ok());
}

#[test]
fn every_broker_needs_a_port_of_its_own() {
    assert!(load_set(&["storage.dirs=/1;/2", "rocketmq.port=65525"]).is_ok());
    assert_eq!(
        only_error(load_set(&["storage.dirs=/1;/2;/3", "rocketmq.port=65525"])),
        "--set: `storage.dirs` is 3 directories; expected at most 2, as ports go from rocketmq.port (65525) up to 65535 \
         by 10"
    );
    assert_eq!(
        only_error(load_set(&["storage.dirs=/1;/2", "console.port=10921"])),
        "the port of broker-a-2 and `console.port` are both 10921; expected different ports"
    );
}

#[test]
fn a_log_file_smaller_than_a_message_is_said() {
    let loaded = load_set(&["storage.segment_size=1MiB"]).unwrap();
    assert!(loaded.notices[0].text.contains("larger messages are refused"));
    assert!(load_set(&["storage.segment_size=1MiB", "maxMessageSize=65536"]).unwrap().notices.is_empty());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = load_file(Path::new("no-such-file.toml")).unwrap_err();
    assert!(error.to_string().starts_with("no-such-file.toml: cannot be read: "), "{error}");
}

#[test]
fn the_sample_is_the_defaults() {
    let sample = sample_toml();
    let defaults = load(Role::Serve, None, &[], &[]).unwrap();
    assert_eq!(toml_file(&sample).unwrap().settings, defaults.settings);
    let setting = |line: &str| line.starts_with('#') && !line.starts_with("# ") && !line.ends_with("\"\"");
    let uncommented: Vec<&str> = sample.lines().map(|line| if setting(line) { &line[1..] } else { line }).collect();
    let loaded = toml_file(&uncommented.join("\n")).unwrap();
    assert_eq!(loaded.settings, defaults.settings);
    let written = loaded.effective.iter().filter(|row| row.place != Place::Default).count();
    let optional = table::rows().filter(|row| row.default.is_empty()).count();
    assert!(written + optional >= table::rows().count(), "{written} of the rows are in the sample");
}

#[test]
fn every_word_of_a_choice_has_its_type() {
    for row in table::rows() {
        let Kind::Choice { known, .. } = row.kind else { continue };
        for word in known {
            let id = if *word == "slave" { "broker.id=1" } else { "broker.id=0" };
            load_set(&[&format!("{}={word}", row.name), id, "tls.self_signed=true", "tls.client_ca=/ca.pem"]).unwrap();
        }
    }
}

#[test]
fn help_knows_settings_and_rocketmq_keys() {
    for (name, says) in [
        ("storage.flush", "flushDiskType"),
        ("flushDiskType", "storage.flush"),
        ("listenPort", "rocketmq.port"),
        ("sendMessageThreadPoolNums", "server.threads"),
        ("aclEnable", "access control"),
    ] {
        assert!(reference::help_for(name).unwrap().contains(says), "{name}");
    }
    assert_eq!(reference::help_for("nonsense"), None);
}

#[test]
fn the_page_about_settings_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let made = reference_markdown();
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "docs/settings.md differs from the table; UPDATE=1 writes it anew");
}

#[test]
fn a_name_server_waits_longer_than_its_broker_takes_to_register() {
    let load_as = |role, pairs: &[&str]| {
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        load(role, None, &pairs, &[])
    };
    for name in ["nameserver.idle_timeout", "nameserver.broker_timeout"] {
        let as_long = format!("{name}=30s");
        let problem = only_error(load_as(Role::Serve, &[&as_long]));
        assert!(problem.contains(name) && problem.contains("broker.registration_interval, which is 30s"), "{problem}");
        let alone = load_as(Role::NameServer, &[&as_long]).unwrap();
        assert!(alone.notices.iter().any(|notice| notice.level == Level::Warning && notice.key == name));
        assert!(load_as(Role::Serve, &[&format!("{name}=31s")]).is_ok());
    }
    assert!(load_as(Role::Serve, &["nameserver.idle_timeout=5s", "broker.registration_interval=2s"]).is_ok());
    // A broker's clients may be hurried; that is nothing to the name server.
    let loaded = load_as(Role::Serve, &["rocketmq.idle_timeout=5s"]).unwrap();
    assert_eq!(loaded.settings.nameserver.idle_timeout, Duration::from_secs(120));
}

fn toml(text: &str) -> File {
    File { path: "sluice.toml".into(), text: text.to_owned() }
}

#[test]
fn every_setting_that_changes_at_once_is_one() {
    let names: Vec<_> = table::rows().filter(|row| row.changes_at_once()).map(|row| row.name).collect();
    assert_eq!(names.len(), 12, "a name of the list is no setting: {names:?}");
}

#[test]
fn a_change_while_running_overrules_all_and_what_needs_a_restart_waits_for_it() {
    let flags = vec![("storage.directory", "d".to_owned())];
    let file = toml("[retention]\nage = \"24h\"\n[topic]\nauto_create = true\n");
    let origin = Origin::new(Role::Serve, Some(file), vec!["message.size_max=1MiB".to_owned()], flags);
    let before = origin.load().expect("settings");
    let wanted = [("maxMessageSize", "2097152"), ("retention.age", "12h"), ("storage.flush", "sync")];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let after = origin.with_changes(&wanted).load().expect("settings");
    let changes = before.changes_to(&after);
    let shown: Vec<_> = changes.iter().map(|one| (one.name, &*one.from, &*one.to, one.at_once)).collect();
    assert_eq!(
        shown,
        [
            ("storage.flush", "async", "sync", false),
            ("retention.age", "24h", "12h", true),
            ("message.size_max", "1MiB", "2MiB", true),
        ]
    );
    let running = before.with_changes_of(&after);
    assert_eq!(running.settings.message.size_max, 2 << 20);
    assert_eq!(running.settings.storage.flush, FlushMode::Async, "from the next start on");
    assert_eq!(running.settings.storage.directory, std::path::Path::new("d"));
    assert_eq!(running.changes_to(&after).len(), 1, "it is still told of");
    let place = |name| running.effective.iter().find(|one| one.name == name).map(|one| one.place.clone());
    assert_eq!(place("retention.age"), Some(Place::Running));

    let other = [("retention.age", "36h"), ("message.size_max", "3MiB")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let again = origin.with_changes(&wanted).with_changes(&other);
    assert_eq!(again.load().expect("settings").settings.retention.age.as_secs(), 36 * 3600);
    assert!(origin.with_changes(&[("retention.aeg".to_owned(), "1h".to_owned())]).load().is_err());
}
