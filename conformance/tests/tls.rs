//! TLS between official clients and servers and the built binary. The official Go client (2.1.2) does not speak it.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use conformance::certificates::Authority;
use conformance::connection::Connection;
use conformance::java::{CLIENT_VERSIONS, JavaNameServer, result_of, start_program_with, verdict_of};
use conformance::pair::until;
use conformance::sluice::{Setup, Sluice};

const COUNT: &str = "20000";
const LIMIT: Duration = Duration::from_secs(300);

/// Clients that trust any certificate, as RocketMQ's do unless told.
const TRUSTING: &str = "-Dtls.enable=true";

/// Clients that verify the server and show a certificate.
fn verifying(authority: &Authority) -> String {
    let path = |name: &str| authority.path(name).display().to_string();
    format!(
        "-Dtls.enable=true -Dtls.test.mode.enable=false -Dtls.client.authServer=true -Dtls.client.trustCertPath={} \
         -Dtls.client.certPath={} -Dtls.client.keyPath={}",
        path("ca.pem"),
        path("client.pem"),
        path("client.key")
    )
}

/// `serve` by RocketMQ's names of the settings.
fn with_certificate(setup: Setup, authority: &Authority) -> Setup {
    authority.sign("server");
    setup
        .set("tls.server.certPath", authority.path("server.pem").display())
        .set("tls.server.keyPath", authority.path("server.key").display())
}

fn guarded(setup: Setup, authority: &Authority) -> Setup {
    with_certificate(setup, authority)
        .set("tls.server.mode", "enforcing")
        .set("tls.server.need.client.auth", "require")
        .set("tls.server.trustCertPath", authority.path("ca.pem").display())
}

fn moves_every_message(version: &str, sluice: &Sluice, scratch: &Path, producer: &str, consumer: &str) {
    let topic = format!("moved_{}", version.replace('.', "_"));
    let flags = [("topic", &*topic), ("count", COUNT), ("size", "1024"), ("threads", "4"), ("limit-seconds", "200")];
    let produce = start_program_with(producer, version, "Produce", &sluice.name_server, scratch, &flags);
    result_of(produce, scratch, LIMIT);
    let flags = [
        ("topic", &*topic),
        ("group", &topic),
        ("expect", COUNT),
        ("from", "first"),
        ("idle-seconds", "1"),
        ("limit-seconds", "200"),
    ];
    let consume = start_program_with(consumer, version, "Consume", &sluice.name_server, scratch, &flags);
    let consumed = result_of(consume, scratch, LIMIT);
    assert_eq!(consumed["distinct"].to_string(), COUNT);
}

fn figure(sluice: &Sluice, name: &str) -> u64 {
    let page = sluice.console_page("/metrics").1;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a figure");
    line.parse().expect("a number")
}

fn is_closed(address: &str) -> bool {
    let mut socket = TcpStream::connect(address).expect("listens");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    std::io::Write::write_all(&mut socket, b"\0\0\x01\0\0\0\0\x10").expect("sends");
    matches!(socket.read(&mut [0; 16]), Ok(0) | Err(_))
}

fn wait_for_log(log: &Path, text: &str) {
    until(&format!("the log says [{text}]"), || std::fs::read_to_string(log).is_ok_and(|log| log.contains(text)));
}

#[test]
fn where_tls_is_enforced_java_clients_with_a_certificate_move_every_message_and_others_none() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let setup = guarded(Setup::serve(&scratch.path().join("data")), &authority);
    let sluice = setup.start();
    authority.sign("client");
    for version in CLIENT_VERSIONS {
        let verifying = verifying(&authority);
        moves_every_message(version, &sluice, scratch.path(), &verifying, &verifying);
        assert!(figure(&sluice, "sluice_tls_handshakes_total") > 0);
    }
    assert!(is_closed(&sluice.broker) && is_closed(&sluice.name_server));
    wait_for_log(&setup.log, "the client does not speak TLS");
    let refused = 2;
    // The log's line may be of the first alone.
    until("both are counted", || figure(&sluice, "sluice_tls_refused_total") == refused);
    for version in CLIENT_VERSIONS {
        let flags = [("topic", "none"), ("count", "1"), ("limit-seconds", "15")];
        let produce = start_program_with(TRUSTING, version, "Produce", &sluice.name_server, scratch.path(), &flags);
        assert!(!verdict_of(produce, LIMIT).0, "{version}: it has no certificate");
    }
    assert!(figure(&sluice, "sluice_tls_refused_total") > refused);
}

#[test]
fn where_tls_is_permitted_clients_with_and_without_it_share_topics() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = Setup::serve(&scratch.path().join("data")).set("tls.self_signed", true).start();
    let [first, second] = CLIENT_VERSIONS;
    moves_every_message(first, &sluice, scratch.path(), TRUSTING, "");
    moves_every_message(second, &sluice, scratch.path(), "", TRUSTING);
    assert_eq!(figure(&sluice, "sluice_tls_refused_total"), 0);
}

#[test]
fn a_broker_registers_by_tls_at_a_name_server_that_enforces_it_and_at_an_official_one() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let name_server = guarded(Setup::name_server(&scratch.path().join("names")), &authority).start();
    let official = JavaNameServer::start(&scratch.path().join("official"));
    authority.sign("client");
    let both = |setup: Setup| setup.set("tls.enable", true);
    let ours = both(Setup::broker(&scratch.path().join("ours"), &name_server.name_server))
        .set("tls.client.trustCertPath", authority.path("ca.pem").display())
        .set("tls.client.certPath", authority.path("client.pem").display())
        .set("tls.client.keyPath", authority.path("client.key").display());
    let theirs =
        both(Setup::broker(&scratch.path().join("theirs"), &official.address)).set("tls.client.authServer", false);
    let plain = Setup::broker(&scratch.path().join("plain"), &name_server.name_server);
    let _running = [ours.start(), theirs.start(), plain.start()];
    wait_for_log(&ours.log, "registered at the name server");
    wait_for_log(&theirs.log, "registered at the name server");
    wait_for_log(&plain.log, "cannot register at the name server");
    let mut official = Connection::open(&official.address);
    assert!(official.cluster_info().contains("broker-a"));
}

#[test]
fn a_changed_certificate_is_taken_over_while_the_process_runs_and_a_broken_one_is_told() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let setup = with_certificate(Setup::serve(&scratch.path().join("data")), &authority);
    let mut sluice = setup.start();
    authority.sign("server");
    wait_for_log(&setup.log, "the TLS certificate is read again");
    std::fs::write(authority.path("server.pem"), "nothing").expect("writes");
    wait_for_log(&setup.log, "cannot be used: the one before stays");
    assert!(sluice.stop().success());
    let refused = setup.run_to_end();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("tls.certificate") && said.contains("server.pem"), "{said}");
}
