//! What there is to know about a machine: plain values. What is `None` the machine does not tell.

use std::path::PathBuf;

use serde::Serialize;

/// Everything that was looked at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// Settings of the kernel.
    pub kernel: Kernel,
    /// Most files the process may open: what it begins with, and what it may raise that to.
    pub open_files: Option<OpenFiles>,
    /// The data directory of each broker, and the log's if that is another.
    pub disks: Vec<Disk>,
    /// Ports of the settings.
    pub ports: Vec<Port>,
    /// Clock.
    pub clock: Clock,
    /// Memory.
    pub memory: Memory,
    /// Processors.
    pub processor: Processor,
}

/// Settings of the kernel, by their names under `vm.`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kernel {
    pub overcommit_memory: Option<u64>,
    pub min_free_kbytes: Option<u64>,
    pub zone_reclaim_mode: Option<u64>,
    pub max_map_count: Option<u64>,
    pub dirty_background_ratio: Option<u64>,
    pub dirty_background_bytes: Option<u64>,
    pub dirty_ratio: Option<u64>,
    pub dirty_bytes: Option<u64>,
    pub page_cluster: Option<u64>,
    pub dirty_writeback_centisecs: Option<u64>,
    pub swappiness: Option<u64>,
    /// When the kernel uses huge pages without being asked: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Whether a thread of the kernel (DAMON) pages out what nobody touched for a while, though memory is free.
    pub pages_out_early: bool,
}

/// Limits of open files.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OpenFiles {
    /// What a process begins with.
    pub soft: u64,
    /// What it may raise that to.
    pub hard: u64,
}

/// A directory and the disk under it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Disk {
    /// What it is for: `data` or `log`, of several brokers with the broker's name before it.
    pub purpose: String,
    /// The directory of the settings.
    pub directory: PathBuf,
    /// That, or what there is of it so far.
    pub looked_at: PathBuf,
    /// Process that has the directory open as its store.
    pub held_by: Option<u32>,
    /// Whether there is a segment of the log already.
    pub has_segment: bool,
    /// Why no file can be made there.
    pub problem: Option<String>,
    /// Its mount.
    pub mount: Option<Mount>,
    /// Room on it.
    pub space: Option<Space>,
    /// The I/O scheduler that is on.
    pub scheduler: Option<String>,
    /// Whether it turns.
    pub is_rotational: Option<bool>,
    /// Trials with a file.
    pub trials: Trials,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Where it is.
    pub point: String,
    /// File system.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// Room on a disk, as `df` counts it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Space {
    /// Bytes to be had.
    pub free: u64,
    /// Percent in use.
    pub used_percent: u8,
}

/// What a file in the directory could do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trials {
    /// Why space cannot be reserved; `None` if it can, or if nothing was tried.
    pub reserve_problem: Option<String>,
    /// Whether a read can be told not to wait for the disk.
    pub has_nowait: Option<bool>,
    /// Time of a write of 4 KiB and its `fdatasync`.
    pub sync: Option<SyncTimes>,
    /// Rate of writes into the page cache.
    pub write: Option<WriteRate>,
}

/// Times of syncs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SyncTimes {
    pub count: usize,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// Rate of writes into the page cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteRate {
    pub bytes: u64,
    /// Millions of bytes a second.
    pub megabytes_per_second: u64,
}

/// A port of the settings.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    /// Setting that names it.
    pub setting: &'static str,
    /// Address it is opened on.
    pub host: String,
    /// Its number; 0 is any.
    pub port: u16,
    /// Whether the broker works without it.
    pub is_optional: bool,
    /// What became of opening it.
    pub state: PortState,
}

/// What became of opening a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    Free,
    InUse,
    /// Refused by the system, in its words.
    Refused(String),
}

/// Clock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Clock {
    /// What the kernel counts time with.
    pub source: Option<String>,
    /// Whether someone keeps it in step with the world.
    pub is_synchronised: Option<bool>,
    /// How far it may be off, in microseconds.
    pub error_us_max: Option<u64>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    pub total: Option<u64>,
    /// What can be had without swapping.
    pub available: Option<u64>,
    /// What the process's control group may have, if that is less than `total`.
    pub group_limit: Option<u64>,
    pub swap_total: Option<u64>,
    /// NUMA nodes.
    pub nodes: Option<u64>,
}

/// Processors.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Processor {
    /// Those the process may use.
    pub count: usize,
    /// How their frequency is governed, and the driver that does it.
    pub governor: Option<String>,
    pub frequency_driver: Option<String>,
    /// Time the host gave to others while we wanted it, during the examination.
    pub steal_percent: Option<u64>,
    /// Load average of the minute before.
    pub load: Option<f64>,
}

/// What a broker with the given settings asks of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// `server.connections_max`.
    pub connections_max: u64,
    /// `storage.segment_size`.
    pub segment_size: u64,
    /// Whether senders wait for syncs.
    pub sync_flush: bool,
    /// `retention.disk_used_percent`.
    pub disk_used_percent: u8,
    /// `retention.disk_refuse_percent`.
    pub disk_refuse_percent: u8,
    /// Memory it will use, in bytes, without that of connections.
    pub memory: u64,
}
