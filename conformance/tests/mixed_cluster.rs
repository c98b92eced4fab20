//! Any process of a cluster may be Sluice's or the official one.

use std::path::Path;

use conformance::connection::Connection;
use conformance::java::{CLIENT_VERSIONS, JavaBroker, JavaNameServer, run_program};
use conformance::sluice::Setup;

fn clients_work(name_server: &str, scratch: &Path) {
    for version in CLIENT_VERSIONS {
        let topic = format!("mixed_{}", version.replace('.', "_"));
        let produced = run_program(
            version,
            "Produce",
            name_server,
            scratch,
            &[("topic", &topic), ("count", "1000"), ("size", "500"), ("threads", "2"), ("mode", "ordered")],
        );
        assert_eq!(produced["ok"], 1000);
        let consumed = run_program(
            version,
            "Consume",
            name_server,
            scratch,
            &[
                ("topic", &topic),
                ("group", &format!("{topic}_group")),
                ("expect", "1000"),
                ("orderly", ""),
                ("from", "first"),
            ],
        );
        assert_eq!(consumed["distinct"], 1000);
    }
}

#[test]
fn a_sluice_broker_with_a_java_name_server() {
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let mut broker = Setup::broker(&scratch.path().join("data"), &name_server.address).start();
    let mut asked = Connection::open(&name_server.address);
    while !asked.cluster_info().contains(&broker.broker) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    clients_work(&name_server.address, scratch.path());
    assert!(broker.stop().success());
    assert!(!asked.cluster_info().contains(&broker.broker), "it took its leave");
}

#[test]
fn a_java_broker_with_a_sluice_name_server() {
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = Setup::name_server(&scratch.path().join("names")).start();
    let broker = JavaBroker::start(&scratch.path().join("java"), &name_server.name_server, &[]);
    clients_work(&name_server.name_server, scratch.path());
    let address = broker.address.clone();
    broker.stop();
    assert!(!Connection::open(&name_server.name_server).cluster_info().contains(&address), "it took its leave");
}
