//! A small limit of open files: connections take their share, and the store keeps its own.

use std::io::Write as _;
use std::net::TcpStream;

use conformance::connection::Connection;
use conformance::sluice::Setup;
use wire::rocketmq::code::response;

const FILES: &str = "ulimit -n 64; exec \"$@\"";

#[test]
fn neither_connections_nor_half_sent_pages_take_the_stores_files_or_the_health_page() {
    let scratch = tempfile::tempdir().expect("directory");
    let setup = Setup::serve(&scratch.path().join("data"))
        .set("storage.segment_size", "512KiB")
        .set("message.size_max", "16KiB")
        .within(&["sh", "-c", FILES, "sh"]);
    let mut sluice = setup.start();
    let mut producer = Connection::open(&sluice.broker);
    producer.make_topic("orders", 16);
    let others: Vec<_> =
        (0..500).map(|_| TcpStream::connect(&sluice.broker).expect("accepted by the system")).collect();
    let half_sent: Vec<_> = (0..80)
        .map(|_| {
            let mut socket = TcpStream::connect(&sluice.console).expect("accepted by the system");
            socket.write_all(b"GET /health HTTP/1.1\r\nHost:").expect("sends");
            socket
        })
        .collect();
    // Several segments, and more queues than there are files for.
    let body = [7; 8 * 1024];
    for number in 0..256 {
        let answer = producer.send_message("orders", number % 16, "", &body);
        assert_eq!(answer.code, response::SUCCESS, "message {number}: {answer:?}");
    }
    let (status, page) = sluice.console_page("/health");
    assert_eq!((status, &*page), (200, r#"{"status":"up"}"#));
    let (_, metrics) = sluice.console_page("/metrics");
    let refused = metrics.lines().find_map(|line| line.strip_prefix("sluice_connections_refused_total "));
    assert!(refused.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 400)), "{refused:?}");
    drop((others, half_sent));
    assert!(sluice.stop().success());
}
