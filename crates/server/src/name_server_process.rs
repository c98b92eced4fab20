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
pub(crate) async fn do_chores(server: Arc<NameServer>, settings: Settings, mut stop: crate::drive::Stop) {
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
        if now.monotonic.ms_since(last_expiry) >= settings.nameserver.scan_interval.as_millis() as u64 {
            last_expiry = now.monotonic;
            drop_silent_brokers(server.clone(), now).await;
        }
        tokio::select! {
            () = tokio::time::sleep(CHORES_INTERVAL) => {}
            _ = stop.changed() => return,
        }
    }
}
