//! What sessions are set to.

use std::sync::Arc;

use base::running_settings::RunningSettings;
use format::request_mode::RequestMode;

/// Settings of sessions.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Messages one pull gets at most.
    pub fetch_count_max: usize,
    /// Bytes one pull gets at most.
    pub fetch_size_max: usize,
    /// Whether a pull without messages waits as long as the client allows; else only `short_poll_ms`.
    pub long_polling: bool,
    /// How long it waits otherwise, ms.
    pub short_poll_ms: u64,
    /// How long a send waits for its sync, ms.
    pub flush_timeout_ms: u64,
    /// How long a send waits for replicas, ms.
    pub replica_timeout_ms: u64,
    /// Whether consumers may be sent to slaves,
    pub slave_reads: bool,
    /// once what they read is this far behind the log's end, bytes.
    pub slow_reader_gap: u64,
    /// How long a connection may be without traffic, ms.
    pub idle_timeout_ms: u64,
    /// Whether consumers hear of changes in their group.
    pub notify_changes: bool,
    /// Whether the broker divides queues among consumers that leave it to the broker; else each gets all.
    pub assigns_queues: bool,
    /// How groups ask for messages of which nothing was said,
    pub request_mode: RequestMode,
    /// and with `Pop`, of how many other members each shares the queues; 0 and below: of all.
    pub shared_queues: i32,
    /// Messages a query by unique id gives at most.
    pub query_count_max: usize,
    /// Messages a query by any key gives at most.
    pub query_key_count_max: usize,
    /// Settings, for administrators who ask.
    pub settings: Arc<dyn RunningSettings>,
}
