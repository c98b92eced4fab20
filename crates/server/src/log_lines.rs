//! Writes log lines to standard error on a thread of its own, so that logging never blocks and never fails.
//!
//! Lines that standard error does not take (closed, full disk) or not soon enough (a pipe that nobody reads) are dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::metric::Traffic;
use parking_lot::{Condvar, Mutex};

/// Most bytes that wait to be written: some thousand lines, enough for a burst.
const WAITING_SIZE_MAX: usize = 1024 * 1024;

/// The queue of lines. `&Lines` is a writer: each write is one line.
#[derive(Debug)]
pub(crate) struct Lines {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of all lines not written yet, including the one being written.
    size: usize,
}

impl Lines {
    pub(crate) fn new(traffic: Arc<Traffic>) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), changed: Condvar::new(), traffic })
    }

    /// Starts the thread, which runs as long as the process.
    pub(crate) fn start_writing(self: &Arc<Self>) -> io::Result<()> {
        // Not through `io::stderr`: the thread would hold its lock while it blocks, and a panic message needs it.
        let out = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let lines = self.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || lines.write_to(out)).map(drop)
    }

    fn write_to(&self, mut out: impl Write) {
        loop {
            let line = self.next();
            if out.write_all(&line).is_err() {
                self.traffic.stderr_lines_dropped.add(1);
            }
            self.waiting.lock().size -= line.len();
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                return line;
            }
            self.changed.wait(&mut waiting);
        }
    }

    /// Queues a line, or drops it if the queue is full.
    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.size + line.len() > WAITING_SIZE_MAX {
            self.traffic.stderr_lines_dropped.add(1);
            return;
        }
        waiting.size += line.len();
        waiting.lines.push_back(line.to_vec());
        self.changed.notify_all();
    }

    /// Waits until everything is written, at most for `limit`.
    pub(crate) fn finish(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut waiting = self.waiting.lock();
        while waiting.size > 0 && !self.changed.wait_until(&mut waiting, deadline).timed_out() {}
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A writer that passes on what it is given, and answers only when told to.
    struct Slow {
        began: mpsc::Sender<Vec<u8>>,
        go_on: mpsc::Receiver<io::Result<()>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.began.send(bytes.to_vec()).expect("the test listens");
            self.go_on.recv().expect("the test answers").map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn with_slow_writer() -> (Arc<Lines>, mpsc::Receiver<Vec<u8>>, mpsc::Sender<io::Result<()>>) {
        let lines = Lines::new(Arc::default());
        let ((began, begun), (answer, go_on)) = (mpsc::channel(), mpsc::channel());
        let writing = lines.clone();
        thread::spawn(move || writing.write_to(Slow { began, go_on }));
        (lines, begun, answer)
    }

    #[test]
    fn what_cannot_be_written_is_dropped_and_counted_and_later_lines_are_written() {
        let (lines, begun, answer) = with_slow_writer();
        for line in ["one\n", "two\n", "three\n"] {
            (&*lines).write_all(line.as_bytes()).expect("never fails");
        }
        let answers = [Err(io::ErrorKind::StorageFull.into()), Err(io::ErrorKind::BrokenPipe.into()), Ok(())];
        for (line, outcome) in ["one\n", "two\n", "three\n"].into_iter().zip(answers) {
            assert_eq!(begun.recv().expect("it is written"), line.as_bytes());
            answer.send(outcome).expect("it waits");
        }
        lines.finish(Duration::from_secs(60));
        assert_eq!(lines.traffic.stderr_lines_dropped.get(), 2);
    }

    #[test]
    fn while_nobody_reads_nobody_waits_and_a_bounded_number_of_lines_is_kept() {
        let (lines, begun, answer) = with_slow_writer();
        let line = [b'x'; 1024];
        (&*lines).write_all(&line).expect("never fails");
        begun.recv().expect("it is being written");
        // All of these return while the first is still being written.
        for _ in 0..2048 {
            (&*lines).write_all(&line).expect("never fails");
        }
        assert_eq!(lines.traffic.stderr_lines_dropped.get(), 2048 + 1 - 1024);
        lines.finish(Duration::ZERO);
        for _ in 0..1024 {
            answer.send(Ok(())).expect("it waits");
        }
        lines.finish(Duration::from_secs(60));
        assert_eq!((lines.waiting.lock().size, begun.try_iter().count()), (0, 1023));
    }
}
