//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

/// Starts logging; later calls change nothing.
pub fn start(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    // A second start in one process (tests) keeps the first.
    drop(started);
}
