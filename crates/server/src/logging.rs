//! Structured logs on standard error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base::metric::Traffic;
use settings::LogFormat;
use tracing_subscriber::EnvFilter;

use crate::log_lines::Lines;

/// How long the process waits at its end until the last lines are written.
const FINISH_LIMIT: Duration = Duration::from_secs(1);

/// Says from which level on lines are written, or which of which module.
#[derive(Clone)]
pub(crate) struct Level(Arc<dyn Fn(EnvFilter) + Send + Sync>);

impl Level {
    /// Of no lines.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(Arc::new(drop))
    }

    /// From now on.
    pub(crate) fn set(&self, level: &str) {
        (self.0)(filter_of(level));
    }
}

/// Writes out the last lines when dropped.
pub(crate) struct Log(Arc<Lines>);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.finish(FINISH_LIMIT);
    }
}

/// Starts logging, of panics too. Later calls in the same process (in tests) have no effect.
pub(crate) fn start(format: LogFormat, level: &str, traffic: Arc<Traffic>) -> std::io::Result<(Log, Level)> {
    let lines = Lines::new(traffic);
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter_of(level)).with_writer(lines.clone()).with_target(false);
    // `Lines` counts what it cannot write. The library would print errors, and panic if it cannot.
    let builder = builder.log_internal_errors(false);
    let (started, level) = match format {
        LogFormat::Text => {
            let builder = builder.with_ansi(false).with_filter_reloading();
            let handle = builder.reload_handle();
            (builder.try_init(), Level(Arc::new(move |filter| drop(handle.reload(filter)))))
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            (builder.try_init(), Level(Arc::new(move |filter| drop(handle.reload(filter)))))
        }
    };
    // A second start in one process (tests) keeps the first.
    if started.is_ok() {
        lines.start_writing()?;
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok((Log(lines), level))
}

fn filter_of(level: &str) -> EnvFilter {
    EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Logs a panic as a line. Rust's own message would block on standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or("no reason given");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(thread, location, reason, %backtrace, "a thread panicked: this is a fault of the program");
    } else {
        tracing::error!(thread, location, reason, "a thread panicked: this is a fault of the program");
    }
}
