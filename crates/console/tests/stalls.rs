//! What health and readiness say while a broker's disk does not answer.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Monotonic, Now, QueueId, TopicName};
use broker::Broker;
use console::Sources;
use format::document::TopicDocument;
use testkit::{GivenSettings, ManualHost, at, broker_options, on_faulty_disk, open_broker};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const START: Now = at(1_700_000_000_000);

/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Has the disk answer again once the test is over, however it ends.
struct Release<F: Fn()>(F);

impl<F: Fn()> Drop for Release<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Two brokers of that name, or one, with a message each that is not synced, and the disk of the first.
fn brokers(count: usize) -> (Vec<Arc<Broker>>, Vec<Arc<ManualHost>>, impl Fn(), impl Fn()) {
    let (mut brokers, mut hosts, mut disks) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=count {
        let (disk, store) = on_faulty_disk(Path::new("/data"));
        let host = Arc::new(ManualHost::default());
        let options = broker::Options { broker_name: format!("broker-{number}"), ..broker_options() };
        let broker = Arc::new(open_broker(options, store, host.clone(), START).expect("it opens"));
        host.serve(&broker);
        add_message(&broker);
        brokers.push(broker);
        hosts.push(host);
        disks.push(disk);
    }
    let disk = disks.swap_remove(0);
    let hanging = disk.clone();
    (brokers, hosts, move || hanging.hold_syncs(), move || disk.release_all())
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

async fn console(brokers: Vec<Arc<Broker>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("address");
    let sources = Sources {
        token: None,
        traffic: Arc::default(),
        brokers,
        settings: Arc::new(GivenSettings::new(&[])),
        ending: Arc::default(),
        process: || None,
        now: || START,
        names_max: 2,
    };
    let (opener, opened) = oneshot::channel();
    opener.send(sources).expect("it waits");
    tokio::spawn(console::serve(listener, opened, 64, std::future::pending()));
    address
}

async fn page(address: SocketAddr, path: &str) -> String {
    let asking = async {
        let mut socket = TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("sends");
        let mut page = String::new();
        socket.read_to_string(&mut page).await.expect("reads");
        page
    };
    tokio::time::timeout(LIMIT, asking).await.expect("the page waits for the disk")
}

/// Has a sync of the broker's log hang, and the watch look at it for 12 seconds.
fn hang(broker: &Arc<Broker>, hang: impl Fn()) -> std::thread::JoinHandle<bool> {
    hang();
    let syncing = broker.clone();
    let syncing = std::thread::spawn(move || syncing.store().sync().is_ok());
    let (began, mut looked_ms) = (Instant::now(), 0);
    while broker.store().stall().is_none() {
        assert!(began.elapsed() < LIMIT, "it does not hang");
        broker.store().look_at_disk(Monotonic(looked_ms));
        looked_ms += 1000;
    }
    (0..=12).for_each(|second| broker.store().look_at_disk(Monotonic(looked_ms + second * 1000)));
    syncing
}

#[tokio::test]
async fn a_broker_alone_is_down_while_its_disk_hangs() {
    let (brokers, _hosts, hold, release) = brokers(1);
    let address = console(brokers.clone()).await;
    let release = Release(release);
    let syncing = hang(&brokers[0], hold);
    for (path, status) in [("/health", "down"), ("/ready", "not ready")] {
        let page = page(address, path).await;
        let is_told = page.contains(r#""reason":"the disk does not answer: syncing /data/commitlog/0000"#);
        assert!(page.starts_with("HTTP/1.1 503 ") && is_told, "{page}");
        assert!(page.contains(" s so far; see ") && page.ends_with(&format!(r#""status":"{status}"}}"#)), "{page}");
    }
    drop(release);
    assert!(syncing.join().expect("no panic"));
    for path in ["/health", "/ready"] {
        assert!(page(address, path).await.starts_with("HTTP/1.1 200 "), "{path}");
    }
}

#[tokio::test]
async fn of_two_brokers_the_one_whose_disk_hangs_is_named() {
    let (brokers, _hosts, hold, release) = brokers(2);
    let address = console(brokers.clone()).await;
    let release = Release(release);
    let syncing = hang(&brokers[0], hold);
    for (path, well, status) in [("/health", "up", "degraded"), ("/ready", "ready", "partly ready")] {
        let page = page(address, path).await;
        assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with(&format!(r#""status":"{status}"}}"#)), "{page}");
        assert!(page.contains(r#""broker-1":{"reason":"the disk does not answer: syncing "#), "{page}");
        assert!(page.contains(&format!(r#""broker-2":{{"status":"{well}"}}"#)), "{page}");
    }
    drop(release);
    assert!(syncing.join().expect("no panic"));
}
