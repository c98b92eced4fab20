//! What must not end while the process runs: threads of brokers, tasks that accept clients and register.
//!
//! One of them that panics is a fault of the program, and what it leaves in memory cannot be relied on. The process then ends in
//! order and tells why: half a broker would look like a whole one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Learns of the first part of the process that has failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supervisor(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    failure: OnceLock<String>,
    failed: Notify,
}

impl Supervisor {
    /// Does the work of the thread called `name`; gives whether it ended without a panic.
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

    /// Runs the task called `name`.
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

    /// The first failure.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.0.failure.get().map(String::as_str)
    }

    /// Waits for a failure; for one caller.
    pub(crate) async fn failed(&self) {
        self.0.failed.notified().await;
    }
}

/// Lets tests of the binary make a thread panic: `SLUICE_PANIC=THREAD:FILE` has it wait for the file instead of working, and
/// panic when it is there. Not in builds that are shipped.
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
