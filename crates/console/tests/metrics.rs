//! The metrics page and readiness over their own socket, of a broker with more topics than the page names.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;

use base::{GroupName, Permission, QueueId, TopicName};
use broker::Broker;
use format::document::TopicDocument;
use support::{START, serve};
use testkit::{ManualHost, broker_options, open_broker, store_options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A console with a broker behind it, whose metrics page names two topics.
struct Console {
    address: SocketAddr,
    broker: Arc<Broker>,
    _host: Arc<ManualHost>,
    _scratch: tempfile::TempDir,
}

impl Console {
    async fn start(permission: Permission) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let host = Arc::new(ManualHost::default());
        let options = broker::Options { permission, ..broker_options() };
        let broker = open_broker(options, store_options(scratch.path()), host.clone(), START).expect("it opens");
        let broker = Arc::new(broker);
        host.serve(&broker);
        let address = serve(vec![broker.clone()], None).await;
        Self { address, broker, _host: host, _scratch: scratch }
    }

    async fn page(&self, path: &str, accept: &str) -> String {
        let mut socket = TcpStream::connect(self.address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("sends");
        let mut page = String::new();
        socket.read_to_string(&mut page).await.expect("reads");
        page
    }

    /// Lines of the metrics page that begin so.
    async fn lines(&self, beginning: &str) -> Vec<String> {
        let page = self.page("/metrics", "text/plain").await;
        page.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    fn add_topic(&self, name: &str, messages: u64) {
        let settings = TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
        let topic = self.broker.catalog.put_topic(TopicName::trusted(name), settings, START).expect("made");
        for _ in 0..messages {
            let mut batch = self.broker.publisher.begin_batch(0, START);
            let message = broker::Message {
                queue: Some(QueueId(0)),
                body: b"m",
                properties: b"",
                flag: 0,
                system_flag: 0,
                born_timestamp: START.wall,
                born_host: self.address,
                delivery_count: 0,
            };
            self.broker.publisher.add(&mut batch, &topic, &message).expect("taken");
            self.broker.publisher.append(batch, START).expect("appended");
        }
    }
}

#[tokio::test]
async fn topics_beyond_those_named_are_summed_and_a_name_stays() {
    let console = Console::start(Permission::OPEN).await;
    for (name, messages) in [("large", 7), ("middle", 5), ("small", 2), ("_other", 9)] {
        console.add_topic(name, messages);
    }
    let stored = "sluice_topic_messages_in_total";
    let shown = [r#"{topic="large"} 7"#, r#"{topic="middle"} 5"#, r#"{topic="_other"} 11"#]
        .map(|line| format!("{stored}{line}"));
    assert_eq!(console.lines(stored).await, shown);
    console.add_topic("small", 30);
    let grown = [r#"{topic="large"} 7"#, r#"{topic="middle"} 5"#, r#"{topic="_other"} 41"#]
        .map(|line| format!("{stored}{line}"));
    assert_eq!(console.lines(stored).await, grown, "they would seem to have begun anew");
    assert_eq!(console.lines("sluice_topic_messages{").await.len(), 3);
}

#[tokio::test]
async fn groups_are_shown_by_topic_with_the_furthest_behind_named() {
    let console = Console::start(Permission::OPEN).await;
    console.add_topic("orders", 10);
    for (group, consumed) in [("near", 9), ("far", 1), ("further", 0), ("middle", 4)] {
        console.broker.catalog.group_for_use(&GroupName::trusted(group), START).expect("made");
        console.broker.offsets.commit("orders", group, QueueId(0), consumed).expect("committed");
    }
    let of = |name: &str, figures: [u64; 3]| {
        let labels =
            [r#"topic="orders",group="further""#, r#"topic="orders",group="far""#, r#"topic="_other",group="_other""#];
        labels.iter().zip(figures).map(|(labels, figure)| format!("{name}{{{labels}}} {figure}")).collect::<Vec<_>>()
    };
    let (lag, consumed) = ("sluice_group_lag_messages", "sluice_group_consumed_messages");
    assert_eq!(console.lines(lag).await, of(lag, [10, 9, 7]));
    assert_eq!(console.lines(consumed).await, of(consumed, [0, 1, 13]));
}

#[tokio::test]
async fn the_page_has_the_form_that_was_asked_for() {
    let console = Console::start(Permission::OPEN).await;
    let text = console.page("/metrics", "*/*").await;
    assert!(text.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{text}");
    assert!(text.contains("# TYPE sluice_messages_in_total counter\n") && !text.contains("# EOF"), "{text}");
    let page = console.page("/metrics", "application/openmetrics-text; version=1.0.0, text/plain; q=0.5").await;
    assert!(page.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{page}");
    assert!(page.contains("# TYPE sluice_messages_in counter\n") && page.ends_with("\n# EOF\n"), "{page}");
}

#[tokio::test]
async fn a_broker_that_nobody_may_write_to_is_well_and_drains() {
    let ready = Console::start(Permission::OPEN).await.page("/ready", "*/*").await;
    assert!(ready.starts_with("HTTP/1.1 200 ") && ready.ends_with(r#"{"status":"ready"}"#), "{ready}");
    let console = Console::start(Permission::READ).await;
    let ready = console.page("/ready", "*/*").await;
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains(r#""reason":"draining: "#), "{ready}");
    assert!(console.page("/health", "*/*").await.starts_with("HTTP/1.1 200 "));
}
