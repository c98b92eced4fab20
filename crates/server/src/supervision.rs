//! Supervises threads and tasks that must run as long as the process: those of brokers, and those that accept clients and register.
//!
//! If one panics, its state in memory cannot be trusted. The process then stops in an orderly way and logs why, rather than run on
//! with a part missing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

#[derive(Clone, Debug, Default)]
pub(crate) struct Supervisor(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    failure: OnceLock<String>,
    failed: Notify,
}

impl Supervisor {
    /// Runs the work of the thread `name`. Returns whether it ended without a panic.
    pub(crate) fn watch(&self, name: &str, work: impl FnOnce()) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(debug_assertions)]
            panic_if_told(name);
            work();
        }));
        if outcome.is_err() {
            self.fail(format!("the thread [{name}] panicked"));
        }
        outcome.is_ok()
    }

    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let supervisor = self.clone();
        tokio::spawn(async move {
            if tokio::spawn(task).await.is_err_and(|error| error.is_panic()) {
                supervisor.fail(format!("the task [{name}] panicked"));
            }
        });
    }

    fn fail(&self, failure: String) {
        tracing::error!(failure, "a part of the process has failed: the process ends");
        let _ = self.0.failure.set(failure);
        self.0.failed.notify_one();
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.0.failure.get().map(String::as_str)
    }

    /// Waits for a failure. Only one caller may wait.
    pub(crate) async fn failed(&self) {
        self.0.failed.notified().await;
    }
}

/// For tests of the binary, in debug builds only: with `SLUICE_PANIC=THREAD:FILE` that thread does not work, but panics once the file
/// exists.
#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "it is asked for")]
fn panic_if_told(name: &str) {
    let told = std::env::var("SLUICE_PANIC").unwrap_or_default();
    let Some((thread, file)) = told.split_once(':') else { return };
    if thread != name {
        return;
    }
    while !std::path::Path::new(file).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("SLUICE_PANIC says so");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ends_is_no_failure_and_work_that_panics_is() {
        let supervisor = Supervisor::default();
        assert!(supervisor.watch("delay", || {}));
        assert_eq!(supervisor.failure(), None);
        assert!(!supervisor.watch("delay", || panic!("a fault")));
        assert_eq!(supervisor.failure(), Some("the thread [delay] panicked"));
        assert!(!supervisor.watch("key-index", || panic!("a later one")));
        assert_eq!(supervisor.failure(), Some("the thread [delay] panicked"), "the first is told");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_told_of() {
        let supervisor = Supervisor::default();
        supervisor.spawn("fine", async {});
        supervisor.spawn("console", async { panic!("a fault") });
        supervisor.failed().await;
        assert_eq!(supervisor.failure(), Some("the task [console] panicked"));
    }
}
