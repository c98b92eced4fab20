//! The metric tables: every figure Sluice counts, with its name, kind and help, once for the process and once for each of
//! its brokers. The metrics page is made from them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::durations::Durations;

/// How a figure behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Goes up and down; a time, counted in ms and shown in seconds, the unit of Prometheus.
    Seconds,
    /// Goes up and down; a share, counted in percent and shown as a ratio (0 to 1), as Prometheus has it.
    Percent,
}

/// One figure.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes `count` away.
    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// Sets the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets the value if it is larger.
    pub fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name on the metrics page, without the `_total` of counters.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    /// Its value now.
    pub value: u64,
}

impl Row {
    /// The value as it is shown.
    pub fn text(&self) -> String {
        match self.kind {
            Kind::Counter | Kind::Gauge => self.value.to_string(),
            Kind::Seconds => format!("{}.{:03}", self.value / 1000, self.value % 1000),
            Kind::Percent => format!("{}.{:02}", self.value / 100, self.value % 100),
        }
    }
}

macro_rules! metrics {
    ($table:ident, $about:literal; $($field:ident $kind:ident $name:literal $help:literal;)*) => {
        #[doc = $about]
        #[derive(Debug, Default)]
        pub struct $table {
            $(#[doc = $help] pub $field: Figure,)*
        }

        impl $table {
            /// The whole table with its values now.
            pub fn rows(&self) -> Vec<Row> {
                vec![$(Row { name: $name, kind: Kind::$kind, help: $help, value: self.$field.get() },)*]
            }
        }
    };
}

/// One histogram of times.
#[derive(Clone, Copy, Debug)]
pub struct TimedRow<'a> {
    /// Name on the metrics page.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The shortest time it can tell from none, in microseconds.
    pub finest_us: u64,
    /// Its times.
    pub times: &'a Durations,
}

macro_rules! timings {
    ($table:ident, $about:literal; $($field:ident $finest_us:literal $name:literal $help:literal;)*) => {
        #[doc = $about]
        #[derive(Debug, Default)]
        pub struct $table {
            $(#[doc = $help] pub $field: Durations,)*
        }

        impl $table {
            /// The whole table.
            pub fn rows(&self) -> Vec<TimedRow<'_>> {
                vec![$(TimedRow { name: $name, help: $help, finest_us: $finest_us, times: &self.$field },)*]
            }
        }
    };
}

timings! {
    Timings, "How long things took at one broker.";
    publish 1000 "sluice_publish_seconds" "Time from reading a send to its acknowledgement.";
    sync 100 "sluice_sync_seconds" "Time a sync of the log took.";
    cold_fetch 1000 "sluice_fetch_cold_seconds" "Time from reading a fetch that had to go to the disk to its answer.";
    delivery 1000 "sluice_delivery_seconds" "Time from storing a message to handing it to a consumer that waited for it.";
    delay 1000 "sluice_delayed_late_seconds" "How long after it was due a delayed message was delivered.";
}

metrics! {
    Traffic, "Figures of the process: its connections, whichever broker or name server they are for.";
    connections Gauge "sluice_connections" "Open client connections.";
    connections_accepted Counter "sluice_connections_accepted" "Client connections accepted since the start.";
    connections_refused Counter "sluice_connections_refused" "Client connections closed at once since there were too many.";
    bytes_received Counter "sluice_received_bytes" "Bytes read from clients.";
    bytes_sent Counter "sluice_sent_bytes" "Bytes written to clients.";
    protocol_errors Counter "sluice_protocol_errors" "Connections closed for bytes that are no frames.";
    tls_handshakes Counter "sluice_tls_handshakes" "Client connections that agreed on TLS.";
    tls_refused Counter "sluice_tls_refused" "Client connections closed for want of TLS, for TLS that is not spoken here, for a bad handshake or certificate.";
    stderr_lines_dropped Counter "sluice_stderr_lines_dropped" "Lines of the log that standard error did not take.";
}

metrics! {
    Metrics, "Figures of one broker, shared by all crates.";
    messages_in Counter "sluice_messages_in" "Messages stored.";
    message_bytes_in Counter "sluice_messages_in_bytes" "Bytes of records stored.";
    messages_out Counter "sluice_messages_out" "Messages handed to consumers.";
    message_bytes_out Counter "sluice_messages_out_bytes" "Bytes of records handed to consumers.";
    publish_refused Counter "sluice_publish_refused" "Messages refused.";
    publishers_blocked Counter "sluice_publishers_blocked" "Times that messages of a connection had to wait until the log took them.";
    fetch_hits Counter "sluice_fetch_hits" "Fetches that found messages.";
    fetch_misses Counter "sluice_fetch_misses" "Fetches that found none.";
    fetch_waiting Gauge "sluice_fetch_waiting" "Fetches waiting for messages.";
    fetch_cold Counter "sluice_fetch_cold" "Fetches that had to go to the disk.";
    dead_letters Counter "sluice_dead_letters" "Messages moved to a dead-letter topic.";
    retries Counter "sluice_retries" "Messages sent back by consumers.";
    delayed_delivered Counter "sluice_delayed_delivered" "Delayed messages that came due.";
    delayed_expired Counter "sluice_delayed_expired" "Delayed messages that retention removed before they were delivered.";
    delayed_held Gauge "sluice_delayed_held" "Delayed messages that are due and cannot be delivered now: they are tried again.";
    delayed_failures Counter "sluice_delayed_failures" "Passes over a delay level that failed: its messages are tried again.";
    delayed_undeliverable Counter "sluice_delayed_undeliverable" "Delayed messages that name no topic there can be: passed over.";
    log_written_bytes Gauge "sluice_log_written_bytes" "The written watermark: survives a killed process.";
    log_durable_bytes Gauge "sluice_log_durable_bytes" "The durable watermark: survives power loss.";
    log_first_bytes Gauge "sluice_log_first_bytes" "First byte still kept in the log.";
    log_writes Counter "sluice_log_writes" "Writes of the log, each with a batch of records.";
    log_syncs Counter "sluice_log_syncs" "Syncs of the log.";
    log_poisoned Gauge "sluice_log_poisoned" "1 after a failed write or sync: nothing more is accepted.";
    records_damaged Counter "sluice_records_damaged" "Records found damaged: they are not served.";
    publish_milliseconds_max Seconds "sluice_publish_max_seconds" "Longest time from reading a send to its acknowledgement.";
    disk_used_percent Percent "sluice_disk_used_ratio" "Use of the data directory's disk, 0 to 1.";
    disk_state Gauge "sluice_disk_state" "0: roomy, 1: expired segments go at any hour, 2: the oldest go, 3: messages are refused.";
    segments_deleted Counter "sluice_segments_deleted" "Log segments removed by retention.";
    topics Gauge "sluice_topics" "Topics.";
    groups Gauge "sluice_groups" "Consumer groups.";
}
