//! Looks at a broker's disk, and tells when it does not answer.
//!
//! **Owns** the thread that looks, from before the directory is opened until it is closed. **Always holds**: it touches no disk and takes
//! no lock that is held over an operation of one, so it tells of a disk that hangs; a stall is told of twice, when it has become long and
//! when it is over. **On a crash** nothing is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use storage::disk::{Disk, Stall};

use crate::clock;
use crate::supervision::Supervisor;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks until it is dropped.
pub(crate) struct DiskWatch {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<bool>>,
}

impl DiskWatch {
    /// Starts to look, in the current tracing span.
    pub(crate) fn start(disk: Disk, supervisor: &Supervisor) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (stops, supervisor, span) = (stopping.clone(), supervisor.clone(), tracing::Span::current());
        let thread = thread::Builder::new().name("disk-watch".to_owned()).spawn(move || {
            let _marked = span.entered();
            supervisor.watch("disk-watch", || watch(&disk, &stops))
        })?;
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It waits for nothing. Where it has panicked, the supervisor knows.
            let _ = thread.join();
        }
    }
}

fn watch(disk: &Disk, stopping: &AtomicBool) {
    let mut told = Told::default();
    while !stopping.load(Ordering::Acquire) {
        disk.look(clock::monotonic());
        match told.next(disk.stall()) {
            Some(News::Hangs(stall)) => tracing::error!(
                operation = stall.operation.doing(),
                path = %stall.path.display(),
                waited_ms = stall.waited_ms,
                "the disk does not answer; see the kernel's log (dmesg) and the storage behind the disk"
            ),
            Some(News::Answers(stall)) => tracing::warn!(
                operation = stall.operation.doing(),
                path = %stall.path.display(),
                waited_ms = stall.waited_ms,
                "the disk answers again"
            ),
            None => {}
        }
        thread::park_timeout(INTERVAL);
    }
}

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// Something has become a long stall.
    Hangs(Stall),
    /// Nothing is one any more. With it the longest since the disk was said to hang.
    Answers(Stall),
}

/// What was told: the longest stall since the disk was said to hang, if it is.
#[derive(Debug, Default)]
struct Told(Option<Stall>);

impl Told {
    /// What is to be told now that `stall` is the longest.
    fn next(&mut self, stall: Option<Stall>) -> Option<News> {
        match (stall.filter(Stall::is_long), &mut self.0) {
            (Some(stall), None) => {
                self.0 = Some(stall.clone());
                Some(News::Hangs(stall))
            }
            (Some(stall), Some(longest)) => {
                if stall.waited_ms > longest.waited_ms {
                    *longest = stall;
                }
                None
            }
            (None, known) => known.take().map(News::Answers),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storage::disk::Operation;

    use super::*;

    fn stall(path: &str, waited_ms: u64) -> Stall {
        Stall { operation: Operation::Sync, path: Path::new(path).into(), waited_ms }
    }

    #[test]
    fn a_stall_is_told_of_when_it_is_long_and_when_it_is_over() {
        let mut told = Told::default();
        assert_eq!(told.next(None), None);
        assert_eq!(told.next(Some(stall("log", 9_999))), None, "a slow disk is no news");
        assert_eq!(told.next(Some(stall("log", 10_000))), Some(News::Hangs(stall("log", 10_000))));
        assert_eq!(told.next(Some(stall("log", 60_000))), None);
        assert_eq!(told.next(Some(stall("queue", 30_000))), None, "the disk still hangs");
        assert_eq!(told.next(Some(stall("queue", 1_000))), Some(News::Answers(stall("log", 60_000))));
        assert_eq!(told.next(None), None);
        assert_eq!(told.next(Some(stall("queue", 11_000))), Some(News::Hangs(stall("queue", 11_000))));
        assert_eq!(told.next(None), Some(News::Answers(stall("queue", 11_000))));
    }

    #[test]
    fn it_ends_at_once_when_it_is_dropped() {
        let began = std::time::Instant::now();
        for _ in 0..3 {
            drop(DiskWatch::start(Disk::real(), &Supervisor::default()).expect("a thread"));
        }
        assert!(began.elapsed() < INTERVAL, "it slept on");
    }
}
