//! Takes over certificates that change while the process runs.

use std::sync::Arc;
use std::time::Duration;

use super::certificates::{ServerFiles, ServerTexts};
use super::port::TlsPort;
use crate::drive::Stop;

/// How often the files are read.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Gives new connections the certificate that stands in the files, until the process stops. What cannot be used is told once, and the
/// certificate before it stays.
pub(crate) async fn keep_current(port: Arc<TlsPort>, files: ServerFiles, texts: ServerTexts, mut stop: Stop) {
    let mut watched = Watched::new(files, texts);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            _ = stop.changed() => return,
        }
        let port = port.clone();
        let look = tokio::task::spawn_blocking(move || {
            watched.look(&port);
            watched
        });
        match look.await {
            Ok(looked) => watched = looked,
            Err(_) => return,
        }
    }
}

pub(super) struct Watched {
    files: ServerFiles,
    /// What was read last, usable or not.
    texts: ServerTexts,
    /// The last problem that was told.
    pub(super) problem: Option<String>,
}

impl Watched {
    pub(super) const fn new(files: ServerFiles, texts: ServerTexts) -> Self {
        Self { files, texts, problem: None }
    }

    pub(super) fn look(&mut self, port: &TlsPort) {
        let certificate = self.files.pair.certificate.path.display().to_string();
        let config = match self.files.read() {
            Ok(texts) if texts == self.texts && self.problem.is_none() => return,
            Ok(texts) => {
                let config = self.files.config(&texts);
                self.texts = texts;
                config
            }
            Err(problem) => Err(problem),
        };
        match config {
            Ok(config) => {
                port.replace(config);
                self.problem = None;
                tracing::info!(certificate, "the TLS certificate is read again: new connections have it");
            }
            Err(problem) => {
                let problem = problem.to_string();
                if self.problem.as_ref() != Some(&problem) {
                    tracing::error!(
                        problem,
                        "the TLS certificate has changed and cannot be used: the one before stays"
                    );
                }
                self.problem = Some(problem);
            }
        }
    }
}
