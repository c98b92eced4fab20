//! The process: sockets, threads, signals, log output. Reads the clock and passes values between the other crates, which do none of
//! this themselves.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate that acts: clocks, threads, files, sockets"
)]

mod announcements;
mod background;
mod broker_options;
mod broker_process;
mod brokers;
mod clock;
mod console_thread;
mod directories;
mod disk_watch;
mod drive;
mod dump;
mod error;
mod export;
mod files;
mod following;
mod jobs;
mod log_lines;
mod logging;
mod name_server_process;
mod net;
mod process;
mod registration;
mod replication;
mod running;
mod service_manager;
mod signals;
mod supervision;
mod system_figures;
mod tls;
mod wakeup;

pub use broker_options::store_options;
pub use error::StartError;
pub use export::export_documents;
pub use process::run;
