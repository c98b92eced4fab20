//! The machine a run is made on: its clocks, processors, pauses, memory and disk, and what it can do without any broker.

pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod description;
pub(crate) mod disk_space;
pub(crate) mod limit;
pub(crate) mod page_cache;
pub(crate) mod pauses;
pub(crate) mod process;
pub(crate) mod scratch;
