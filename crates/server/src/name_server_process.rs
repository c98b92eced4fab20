//! Runs a name server: expiry of brokers, notices to brokers, and the file of the key-value table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::name_server::{KeyValueFile, NameServer};
use settings::Settings;
use storage::disk::Disk;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::clock;
use crate::error::StartError;

/// How often expiry and notices are checked.
const CHORES_INTERVAL: Duration = Duration::from_millis(100);

/// Creates the name server and loads its key-value table.
pub(crate) fn open(settings: &Settings) -> Result<Arc<NameServer>, StartError> {
    let path = settings.kv_path();
    let key_values = match Disk::real().read_file(&path)? {
        Some(text) => KeyValues::from_json(&text).map_err(|refusal| StartError::Setting {
            name: "nameserver.kv_path",
            problem: format!("{} cannot be read: {refusal}; mend it or restore {}.bak", path.display(), path.display()),
        })?,
        None => KeyValues::default(),
    };
    let given = &settings.nameserver;
    let options = Options {
        order_message_enable: given.order_messages,
        return_order_topic_config_to_broker: given.return_order_topics,
        support_acting_master: given.acting_masters,
        notify_min_broker_id_changed: given.notify_slaves,
        enable_all_topic_list: given.list_all_topics,
        enable_topic_list: given.list_topics,
        delete_topic_with_broker_registration: given.delete_topics_on_registration,
        scan_interval_ms: u64::try_from(given.scan_interval.as_millis()).unwrap_or(u64::MAX),
        broker_timeout_ms: u64::try_from(given.broker_timeout.as_millis()).unwrap_or(u64::MAX),
        idle_timeout_ms: u64::try_from(given.idle_timeout.as_millis()).unwrap_or(u64::MAX),
        ..Options::default()
    };
    Ok(NameServer::new(options, key_values, Box::new(JsonFile(path)), clock::now()))
}

/// `kvConfig.json`.
struct JsonFile(PathBuf);

impl KeyValueFile for JsonFile {
    fn replace(&self, text: &str) -> Result<(), String> {
        Disk::real().replace_file(&self.0, text.as_bytes()).map_err(|error| {
            tracing::error!(%error, "the key-value table cannot be written");
            error.to_string()
        })
    }
}

/// Runs on a blocking thread: removing the topics of a large broker takes a while.
async fn drop_silent_brokers(server: Arc<NameServer>, now: Now) {
    let dropping = tokio::task::spawn_blocking(move || server.expire(now));
    match dropping.await {
        Ok(dropped) => {
            for expired in dropped {
                tracing::warn!(?expired, "a broker was silent for too long and is dropped");
            }
        }
        Err(error) => {
            // A panic there counts as one of this task, which ends the process.
            if let Ok(panic) = error.try_into_panic() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Sends notices to brokers, and drops silent ones.
pub(crate) async fn do_chores(server: Arc<NameServer>, scan_interval: Duration, mut stop: crate::drive::Stop) {
    let mut last_expiry = clock::monotonic();
    loop {
        for notice in server.take_notices() {
            tokio::spawn(async move {
                let sent = async { TcpStream::connect(&notice.address).await?.write_all(&notice.frame).await };
                // A lost notice is harmless: the broker asks from time to time.
                let _ = tokio::time::timeout(Duration::from_secs(3), sent).await;
            });
        }
        for odd in server.take_odd_registrations() {
            let (broker, address, count) = (odd.broker, odd.address, odd.topics.count);
            let first = odd.topics.first.unwrap_or_default();
            tracing::warn!(
                broker,
                address,
                count,
                first,
                "a broker registered topics that are not as they should be; the others have routes"
            );
        }
        let now = clock::now();
        if now.monotonic.ms_since(last_expiry) >= scan_interval.as_millis() as u64 {
            last_expiry = now.monotonic;
            drop_silent_brokers(server.clone(), now).await;
        }
        tokio::select! {
            () = tokio::time::sleep(CHORES_INTERVAL) => {}
            _ = stop.changed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use cluster::registration::{Identity, register_request};
    use format::document::{TopicDocument, TopicTableDocument};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::sync::{mpsc, watch};
    use wire::rocketmq::code::request;
    use wire::rocketmq::frame::{Command, Form, frame_len};

    use super::*;
    use crate::drive::Drive;

    /// What routes and notices may take, with room for a loaded machine.
    const LIMIT: Duration = Duration::from_secs(20);

    async fn read_frame(socket: &mut TcpStream) -> BytesMut {
        let mut input = BytesMut::new();
        loop {
            if let Some(length) = frame_len(&input).expect("a frame") {
                return input.split_to(length);
            }
            assert_ne!(socket.read_buf(&mut input).await.expect("readable"), 0, "the other end closes");
        }
    }

    /// A connection to the name server on which a broker of the group has registered.
    async fn register(name_server: &str, id: i64, address: String) -> TcpStream {
        let topic = |name: &str| (name.to_owned(), TopicDocument { topic_name: name.to_owned(), ..Default::default() });
        let topics = TopicTableDocument { topic_config_table: ["a", "b"].map(topic).into(), ..Default::default() };
        let identity = Identity {
            cluster_name: "cluster".to_owned(),
            broker_name: "broker".to_owned(),
            broker_id: id,
            ha_address: address.clone(),
            address,
            enable_acting_master: Some(true),
            ..Identity::default()
        };
        let mut socket = TcpStream::connect(name_server).await.expect("connects");
        let asked = register_request(&identity, &topics, Form::Json, 1).expect("fits");
        socket.write_all(&asked).await.expect("written");
        assert_eq!(Command::decode(&read_frame(&mut socket).await).expect("an answer").header.code, 0);
        socket
    }

    #[tokio::test]
    async fn a_slave_is_told_at_its_address_when_its_masters_connection_breaks_and_when_it_is_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = Box::new(JsonFile(directory.path().join("kvConfig.json")));
        let server = NameServer::new(Options::default(), KeyValues::default(), file, clock::now());
        let (_stopper, stop) = watch::channel(false);
        let (_alive, _ended) = mpsc::channel(1);
        let (traffic, jobs, refusals_quiet_until, budget, tls) = Default::default();
        let stopped = stop.clone();
        let drive = Drive { traffic, stop, connections_max: 10, refusals_quiet_until, jobs, budget, tls, _alive };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let name_server = listener.local_addr().expect("an address").to_string();
        let sessions = server.clone();
        tokio::spawn(drive.serve(listener, move |waker, _| sessions.session(waker)));
        tokio::spawn(do_chores(server, Duration::from_secs(5), stopped));
        let slave = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let slave_address = slave.local_addr().expect("an address").to_string();

        let noticed = async {
            let mut master = register(&name_server, 0, "127.0.0.1:1".to_owned()).await;
            let _slave = register(&name_server, 1, slave_address).await;
            for lowest_id in ["1", "0"] {
                if lowest_id == "1" {
                    master.shutdown().await.expect("shut");
                } else {
                    master = register(&name_server, 0, "127.0.0.1:1".to_owned()).await;
                }
                let (mut socket, _) = slave.accept().await.expect("a connection");
                let notice = read_frame(&mut socket).await;
                let notice = Command::decode(&notice).expect("a notice");
                assert_eq!(notice.header.code, request::NOTIFY_MIN_BROKER_ID_CHANGE);
                assert_eq!(notice.fields.get("minBrokerId").as_deref(), Some(lowest_id));
            }
        };
        tokio::time::timeout(LIMIT, noticed).await.expect("told in time");
    }
}
