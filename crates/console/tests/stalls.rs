//! What the console does while a broker's disk does not answer: health and readiness say so, and metrics are there.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::offset::AckPolicy;
use base::{Monotonic, QueueId, TopicName};
use broker::Broker;
use format::document::TopicDocument;
use support::{START, serve};
use testkit::{HangingDisk, ManualHost, broker_options, open_broker, store_options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A console with brokers behind it, each with a message that is not synced.
struct Console {
    address: SocketAddr,
    /// Of the first broker.
    disk: HangingDisk,
    brokers: Vec<Arc<Broker>>,
    _hosts: Vec<Arc<ManualHost>>,
}

impl Console {
    async fn start(brokers: usize) -> Self {
        let disks: Vec<_> = (0..brokers).map(|_| HangingDisk::default()).collect();
        let (mut brokers, mut hosts) = (Vec::new(), Vec::new());
        for (number, disk) in (1..).zip(&disks) {
            let host = Arc::new(ManualHost::default());
            // Whoever stores a message waits for the disk.
            let ack_policy = AckPolicy { durable: true, replicated: false };
            let broker_name = format!("broker-{number}");
            let options = broker::Options { broker_name, ack_policy, ..broker_options() };
            let store = disk.of(store_options(Path::new("/data")));
            let broker = Arc::new(open_broker(options, store, host.clone(), START).expect("it opens"));
            host.serve(&broker);
            add_message(&broker);
            brokers.push(broker);
            hosts.push(host);
        }
        let disk = disks.into_iter().next().expect("a broker");
        Self { address: serve(brokers.clone(), None).await, disk, brokers, _hosts: hosts }
    }

    async fn page(&self, path: &str) -> String {
        let asking = async {
            let mut socket = TcpStream::connect(self.address).await.expect("connects");
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            socket.write_all(request.as_bytes()).await.expect("sends");
            let mut page = String::new();
            socket.read_to_string(&mut page).await.expect("reads");
            page
        };
        tokio::time::timeout(LIMIT, asking).await.expect("the page waits for the disk")
    }

    /// Asks for a message to be stored, and goes after a moment.
    async fn store_and_go(&self) {
        let body = r#"{"body":"m","queue":0}"#;
        let head =
            "POST /admin/v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        let mut socket = TcpStream::connect(self.address).await.expect("connects");
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).await.expect("sends");
        let answer = tokio::time::timeout(Duration::from_millis(200), socket.read_u8()).await;
        assert!(answer.is_err(), "it was answered without the disk");
    }

    /// Messages of the first broker.
    fn stored(&self) -> u64 {
        let topics = self.brokers[0].catalog.topics();
        topics.iter().flat_map(|topic| &topic.queues).map(|queue| queue.end().0).sum()
    }

    /// Has a sync of the first broker's log hang, and the disk looked at for 12 seconds.
    fn hang(&self) -> JoinHandle<bool> {
        self.disk.hang_syncs();
        let broker = self.brokers[0].clone();
        let syncing = std::thread::spawn(move || broker.store().sync().is_ok());
        let store = self.brokers[0].store();
        let (began, mut now) = (Instant::now(), Monotonic(0));
        while store.stall().is_none() {
            assert!(began.elapsed() < LIMIT, "it does not hang");
            now = now.plus_ms(1000);
            store.look_at_disk(now);
        }
        (1..=12).for_each(|second| store.look_at_disk(now.plus_ms(second * 1000)));
        syncing
    }
}

fn add_message(broker: &Broker) {
    let settings = TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
    let topic = broker.catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
    let mut batch = broker.publisher.begin_batch(0, START);
    let message = broker::Message {
        queue: Some(QueueId(0)),
        body: b"m",
        properties: b"",
        flag: 0,
        system_flag: 0,
        born_timestamp: START.wall,
        born_host: SocketAddr::from(([127, 0, 0, 1], 1)),
        delivery_count: 0,
    };
    broker.publisher.add(&mut batch, &topic, &message).expect("taken");
    broker.publisher.append(batch, START).expect("appended");
}

#[tokio::test]
async fn a_broker_alone_is_down_while_its_disk_hangs() {
    let console = Console::start(1).await;
    let syncing = console.hang();
    for (path, status) in [("/health", "down"), ("/ready", "not ready")] {
        let page = console.page(path).await;
        let is_told = page.contains(r#""reason":"the disk does not answer: syncing /data/commitlog/0000"#);
        assert!(page.starts_with("HTTP/1.1 503 ") && is_told, "{page}");
        assert!(page.contains(" s so far; see ") && page.ends_with(&format!(r#""status":"{status}"}}"#)), "{page}");
    }
    console.disk.release();
    assert!(syncing.join().expect("no panic"));
    for path in ["/health", "/ready"] {
        assert!(console.page(path).await.starts_with("HTTP/1.1 200 "), "{path}");
    }
}

#[tokio::test]
async fn of_two_brokers_the_one_whose_disk_hangs_is_named() {
    let console = Console::start(2).await;
    let syncing = console.hang();
    for (path, well, status) in [("/health", "up", "degraded"), ("/ready", "ready", "partly ready")] {
        let page = console.page(path).await;
        assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with(&format!(r#""status":"{status}"}}"#)), "{page}");
        assert!(page.contains(r#""broker-1":{"reason":"the disk does not answer: syncing "#), "{page}");
        assert!(page.contains(&format!(r#""broker-2":{{"status":"{well}"}}"#)), "{page}");
    }
    console.disk.release();
    assert!(syncing.join().expect("no panic"));
}

#[test]
fn clients_that_go_while_the_disk_hangs_leave_threads_for_the_metrics_and_little_is_done_for_them() {
    // As many threads as the console has in a broker.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(console::JOBS_AT_ONCE_MAX).build().expect("a runtime");
    runtime.block_on(async {
        let console = Console::start(1).await;
        let before = console.stored();
        console.disk.hang_syncs();
        for _ in 0..3 * console::JOBS_AT_ONCE_MAX {
            console.store_and_go().await;
        }
        for path in ["/health", "/metrics"] {
            assert!(console.page(path).await.starts_with("HTTP/1.1 200 "), "{path}");
        }
        console.disk.release();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stored = (console.stored() - before) as usize;
        assert!((1..console::JOBS_AT_ONCE_MAX).contains(&stored), "only what had a thread: {stored}");
    });
    runtime.shutdown_background();
}
