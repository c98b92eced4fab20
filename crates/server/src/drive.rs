//! Drives one connection: moves bytes between a socket and a session until either ends.
//!
//! Reads until the socket would block or the session wants no more, writes the session's output, runs its jobs on the blocking pool,
//! and wakes it at its deadline or when its waker is called.
//!
//! A connection is closed once no byte was transferred for its session's idle timeout, unless a reply is still being prepared.

mod farewell;
mod holding;

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use ::tls::TlsSession;
use base::Monotonic;
use base::budget::{Budget, Room};
use base::limits::READ_SIZE;
use base::metric::Traffic;
use base::session::Session;
use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::jobs::Jobs;
use crate::net;
use crate::tls::TlsPort;
use crate::wakeup::Wakeup;
use holding::Holding;

const WRITE_SLICES: usize = 256;

/// While the memory budget is used up, a connection that holds some of it is closed after this long without a byte transferred.
const STUCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How often such a connection checks the budget.
const STUCK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a connection with a large frame to read checks whether the budget allows it.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// Replies that the peer does not take for this long are copied, so that they no longer keep blocks of the log in memory.
const SHARED_TIME_MAX: Duration = Duration::from_secs(1);

/// Refused connections are logged at most once in this time.
const REFUSALS_TOLD_EVERY_MS: u64 = 60_000;

/// Read buffers that a network thread keeps for reuse.
const POOLED_BUFFERS: usize = 4;

thread_local! {
    static BUFFERS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Turns true when the process stops.
pub(crate) type Stop = watch::Receiver<bool>;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Drive {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) stop: Stop,
    /// Connections beyond this are closed at once.
    pub(crate) connections_max: u64,
    /// No refused connection is logged before this time, ms.
    pub(crate) refusals_quiet_until: Arc<AtomicU64>,
    pub(crate) jobs: Jobs,
    pub(crate) budget: Arc<Budget>,
    pub(crate) tls: Arc<TlsPort>,
    /// Dropped with the last connection, so that the process knows when all have ended.
    pub(crate) _alive: mpsc::Sender<()>,
}

/// Permission to hold one of the connections that the process may have; given back when dropped.
pub(crate) struct Permit(Arc<Traffic>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.connections.subtract(1);
    }
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// Closed by the peer, or the process stops.
    #[error("the connection was closed")]
    Quiet,
    #[error(transparent)]
    Io(io::Error),
    #[error("{0}")]
    Protocol(String),
    #[error("the connection was idle")]
    Idle,
    /// Stalled: the peer does not take its replies, or the connection holds memory that others wait for.
    #[error("the connection stalled")]
    Stuck,
}

/// What to do once there is nothing to write.
enum Pause {
    /// Wait for the socket or a wake-up, at most until then.
    Until(Option<Monotonic>),
    /// Wake the session: its deadline has passed.
    Due,
    Over(End),
}

impl Drive {
    /// A permit for one more connection. Without one the caller closes it at once, so that the client tries elsewhere or later.
    fn admit(&self, peer: SocketAddr) -> Option<Permit> {
        // Counted here and not in `run`: many connections are accepted before the first of them runs.
        self.traffic.connections.add(1);
        let permit = Permit(self.traffic.clone());
        if self.traffic.connections.get() <= self.connections_max {
            self.traffic.connections_accepted.add(1);
            return Some(permit);
        }
        self.traffic.connections_refused.add(1);
        let now = clock::monotonic();
        if now.0 >= self.refusals_quiet_until.load(Ordering::Relaxed) {
            self.refusals_quiet_until.store(now.plus_ms(REFUSALS_TOLD_EVERY_MS).0, Ordering::Relaxed);
            tracing::warn!(
                %peer,
                max = self.connections_max,
                "too many connections (server.connections_max, or the limit of open files); sluice_connections_refused_total counts"
            );
        }
        None
    }

    /// Serves connections until the process stops; `begin` makes the session of each.
    pub(crate) async fn serve<S: Session + 'static>(
        mut self,
        listener: TcpListener,
        begin: impl Fn(Waker, SocketAddr) -> S,
    ) {
        loop {
            tokio::select! {
                (socket, peer) = net::accept(&listener) => {
                    let Some(permit) = self.admit(peer) else { continue };
                    let (wakeup, waker) = Wakeup::new();
                    // Boxed: what a task is given is in it twice.
                    let session = Box::new(self.tls.begin(begin(waker, peer), peer, clock::monotonic()));
                    tokio::spawn(self.clone().run(socket, session, wakeup, peer, permit));
                }
                _ = self.stop.changed() => return,
            }
        }
    }

    /// Drives the connection until it ends.
    async fn run(
        mut self,
        mut socket: TcpStream,
        mut session: Box<TlsSession<impl Session>>,
        wakeup: Arc<Wakeup>,
        peer: SocketAddr,
        permit: Permit,
    ) {
        let end = self.converse(&mut socket, &mut *session, &wakeup).await;
        drop(socket);
        drop(permit);
        match end {
            End::Quiet => tracing::debug!(%peer, "connection closed"),
            End::Idle => tracing::info!(%peer, "connection closed: idle"),
            End::Stuck => tracing::warn!(
                %peer,
                "connection closed: stalled, its replies are not taken or its memory is needed by others"
            ),
            End::Io(error) => tracing::debug!(%peer, %error, "connection lost"),
            End::Protocol(reason) if session.is_refused() => self.tls.tell_refused(peer, &reason, clock::monotonic()),
            End::Protocol(reason) => {
                self.traffic.protocol_errors.add(1);
                tracing::warn!(%peer, reason, "connection closed: the client sent bytes that are not of this protocol");
            }
        }
    }

    /// Drives a session from its begin to its end.
    pub(crate) async fn converse(
        &mut self,
        socket: &mut TcpStream,
        session: &mut impl Session,
        wakeup: &Wakeup,
    ) -> End {
        session.share(self.budget.clone());
        let end = self.exchange(socket, session, wakeup).await;
        let mut has_said_farewell = false;
        if matches!(end, End::Quiet | End::Idle) {
            session.finish();
            has_said_farewell = matches!(self.write(socket, session), Ok(true));
        }
        session.closed(clock::now());
        self.begin_jobs(session);
        if has_said_farewell {
            farewell::hear_out(socket).await;
        }
        end
    }

    async fn exchange(&mut self, socket: &mut TcpStream, session: &mut impl Session, wakeup: &Wakeup) -> End {
        let mut input = BytesMut::new();
        let mut holding = Holding::of(self.budget.clone());
        // Whether `input` has frames left that the session did not want yet.
        let mut is_held = false;
        let mut stopping = *self.stop.borrow();
        // Whether a byte was transferred since `moved_at`.
        let mut has_moved = false;
        let mut moved_at = clock::monotonic();
        let mut unwritten = Unwritten::default();
        loop {
            self.begin_jobs(session);
            match self.write(socket, session) {
                Ok(written) => has_moved |= written,
                Err(error) => return End::Io(error),
            }
            // Before what is held is received: what was written may have made room for reads that waited for that.
            self.begin_jobs(session);
            if let Some(end) = end_of(session) {
                return end;
            }
            if is_held && session.wants_input() {
                if let Err(end) = self.receive(session, &mut input) {
                    let _ = self.write(socket, session);
                    return end;
                }
                is_held = holds(session, &input);
                continue;
            }
            if stopping && !session.is_busy() && session.output().is_empty() {
                return End::Quiet;
            }
            let had_room = holding.may_read;
            holding.update(session, &mut input, self.budget.room());
            // The idle time starts anew once reading is allowed again.
            has_moved |= holding.may_read && !had_room;
            let interest = interest(session, stopping || !holding.may_read);
            let now = clock::monotonic();
            if std::mem::take(&mut has_moved) {
                moved_at = now;
            }
            let next_timer = match self.pause(session, &holding, moved_at, now) {
                Pause::Until(timer) => timer.into_iter().chain(unwritten.look(session, now)).min(),
                Pause::Due => {
                    session.wake(clock::now());
                    continue;
                }
                Pause::Over(end) => return end,
            };
            tokio::select! {
                ready = socket.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => match ready {
                    Ok(ready) if ready.is_readable() && holding.may_read && session.wants_input() && !stopping => {
                        has_moved = true;
                        match self.read(socket, session, &mut input).await {
                            Ok(true) => is_held = holds(session, &input),
                            Ok(false) => { let _ = self.write(socket, session); return End::Quiet; }
                            Err(end) => { let _ = self.write(socket, session); return end; }
                        }
                    }
                    Ok(_) => {}
                    Err(error) => return End::Io(error),
                },
                () = wakeup.woken() => session.wake(clock::now()),
                () = rest(next_timer.unwrap_or(now), now), if next_timer.is_some() => {}
                _ = self.stop.changed(), if !stopping => stopping = true,
            }
        }
    }

    /// Has the work begun that the session wants done elsewhere.
    fn begin_jobs(&self, session: &mut impl Session) {
        while let Some(job) = session.take_job() {
            self.jobs.run(job);
        }
    }

    /// Decides how long to wait if nothing happens.
    fn pause(&self, session: &mut impl Session, holding: &Holding, moved_at: Monotonic, now: Monotonic) -> Pause {
        if !holding.may_read {
            session.note_unread(now);
        }
        let deadline = session.deadline();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Pause::Due;
        }
        let is_flushed = session.output().is_empty();
        let waits = deadline.is_some() || session.is_busy() || !holding.may_read;
        let mut timer = deadline;
        if !waits || !is_flushed {
            // Only the peer can move this connection on.
            let idle_at = session.idle_timeout_ms().map(|timeout_ms| moved_at.plus_ms(timeout_ms));
            let stuck_at = clock::after(moved_at, STUCK_TIMEOUT);
            let is_in_the_way = holding.held.size() > 0 && self.budget.room() == Room::None;
            if idle_at.is_some_and(|idle_at| idle_at <= now) || is_in_the_way && stuck_at <= now {
                return Pause::Over(if is_flushed && !is_in_the_way { End::Idle } else { End::Stuck });
            }
            let look_at = (holding.held.size() > 0).then(|| stuck_at.max(clock::after(now, STUCK_INTERVAL)));
            timer = timer.into_iter().chain(idle_at).chain(look_at).min();
        }
        if !holding.may_read {
            timer = timer.into_iter().chain([clock::after(now, ROOM_INTERVAL)]).min();
        }
        Pause::Until(timer)
    }

    /// Reads once and passes the bytes to the session. `false`: the peer closed the connection.
    async fn read(
        &self,
        socket: &mut TcpStream,
        session: &mut impl Session,
        input: &mut BytesMut,
    ) -> Result<bool, End> {
        if input.is_empty() {
            *input = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        let spare = input.capacity() - input.len();
        // For a large frame `Holding::update` has reserved the capacity already.
        if spare == 0 || spare < READ_SIZE / 4 && input.len() < READ_SIZE {
            input.reserve(READ_SIZE);
        }
        // Polled once, and not `try_read_buf`: after a short read this one knows that the socket is empty, without a second system
        // call that returns nothing.
        let read = tokio::select! {
            biased;
            read = socket.read_buf(input) => Some(read),
            () = std::future::ready(()) => None,
        };
        let outcome = match read {
            Some(Ok(0)) => Ok(false),
            Some(Ok(count)) => {
                self.traffic.bytes_received.add(count as u64);
                self.receive(session, input).map(|()| true)
            }
            Some(Err(error)) => Err(End::Io(error)),
            None => Ok(true),
        };
        if input.is_empty() {
            give_back(std::mem::take(input));
        }
        outcome
    }

    fn receive(&self, session: &mut impl Session, input: &mut BytesMut) -> Result<(), End> {
        let outcome = session.receive(input, clock::now()).map_err(|reason| End::Protocol(reason.0));
        if input.is_empty() {
            // An idle connection keeps no buffer.
            give_back(std::mem::take(input));
        }
        outcome
    }

    /// Writes the session's output until the socket would block. Returns whether anything was written.
    fn write(&self, socket: &TcpStream, session: &mut impl Session) -> io::Result<bool> {
        let output = session.output();
        let mut has_written = false;
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
            let count = output.io_slices(&mut slices);
            match socket.try_write_vectored(slices.get(..count).unwrap_or_default()) {
                Ok(written) => {
                    has_written = true;
                    output.advance(written);
                    self.traffic.bytes_sent.add(written as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_written),
                Err(error) => return Err(error),
            }
        }
        Ok(has_written)
    }
}

/// How a session that has ended by itself ends its connection.
fn end_of(session: &mut impl Session) -> Option<End> {
    if let Some(reason) = session.close_reason() {
        return Some(End::Protocol(reason.0));
    }
    (session.is_over() && session.output().is_empty()).then_some(End::Quiet)
}

/// Since when there has been output that the peer does not take.
#[derive(Default)]
struct Unwritten {
    since: Option<Monotonic>,
}

impl Unwritten {
    /// Copies output that has waited long, so that a slow peer keeps no blocks of the log in memory. Returns when to check again.
    fn look(&mut self, session: &mut impl Session, now: Monotonic) -> Option<Monotonic> {
        if session.output().is_empty() {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let look_at = clock::after(since, SHARED_TIME_MAX);
        if now < look_at {
            return Some(look_at);
        }
        session.detach_output();
        self.since = Some(now);
        Some(clock::after(now, SHARED_TIME_MAX))
    }
}

async fn rest(at: Monotonic, now: Monotonic) {
    tokio::time::sleep(Duration::from_millis(at.ms_since(now))).await;
}

/// Whether input waits until the session wants more, or has written what it answered so far. Of a frame of which a part is there the rest
/// has to be read, once there is room for it.
fn holds(session: &impl Session, input: &BytesMut) -> bool {
    let is_there = !input.is_empty() || session.holds_input();
    is_there && session.frame_size(input) <= input.len() && (session.has_paused() || !session.wants_input())
}

/// The socket events to wait for.
fn interest(session: &mut impl Session, reads_nothing: bool) -> Option<Interest> {
    let reads = (session.wants_input() && !reads_nothing).then_some(Interest::READABLE);
    let writes = (!session.output().is_empty()).then_some(Interest::WRITABLE);
    match (reads, writes) {
        (Some(reads), Some(writes)) => Some(reads | writes),
        (reads, writes) => reads.or(writes),
    }
}

/// Keeps a read buffer for reuse.
fn give_back(mut buffer: BytesMut) {
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < POOLED_BUFFERS && (1..=2 * READ_SIZE).contains(&buffer.capacity()) {
            buffers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use base::Now;
    use base::budget::Held;
    use base::session::{CloseReason, Job, Output};
    use bytes::Bytes;
    use testkit::{CLOCK_STEPS_MS, at, clock_set};
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::Instant;

    use super::*;

    /// Answers a request of `request_size` bytes with `answer`, after `wait`.
    struct Answering {
        request_size: usize,
        output: Output,
        answer: Bytes,
        wait: Duration,
        due_at: Option<Monotonic>,
        woken: Arc<AtomicUsize>,
        idle_timeout: Duration,
    }

    impl Answering {
        fn after(wait: Duration) -> Self {
            let (output, answer, woken) = (Output::default(), Bytes::from_static(b"answer"), Arc::default());
            let idle_timeout = Duration::from_secs(60);
            Self { request_size: 0, output, answer, wait, due_at: None, woken, idle_timeout }
        }
    }

    impl Session for Answering {
        fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
            if input.len() < self.request_size {
                return Ok(());
            }
            input.clear();
            self.due_at = Some(now.monotonic.plus_ms(self.wait.as_millis() as u64));
            Ok(())
        }

        fn wake(&mut self, now: Now) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            if self.due_at.take_if(|due_at| *due_at <= now.monotonic).is_some() {
                self.output.push(std::mem::take(&mut self.answer));
            }
        }

        fn output(&mut self) -> &mut Output {
            &mut self.output
        }

        fn deadline(&self) -> Option<Monotonic> {
            self.due_at
        }

        fn wants_input(&self) -> bool {
            true
        }

        fn idle_timeout_ms(&self) -> Option<u64> {
            Some(self.idle_timeout.as_millis() as u64)
        }

        fn is_busy(&self) -> bool {
            false
        }

        fn held_size(&self) -> usize {
            self.output.size()
        }

        fn frame_size(&self, _input: &[u8]) -> usize {
            self.request_size
        }

        fn share(&mut self, _budget: Arc<Budget>) {}

        fn take_job(&mut self) -> Option<Job> {
            None
        }

        fn closed(&mut self, _now: Now) {}
    }

    /// Answers each byte with itself, and has each answer written before the next.
    #[derive(Default)]
    struct Pausing {
        output: Output,
        has_paused: bool,
    }

    impl Session for Pausing {
        fn receive(&mut self, input: &mut BytesMut, _now: Now) -> Result<(), CloseReason> {
            assert!(self.output.is_empty(), "what was answered is written");
            assert_ne!(input.first(), Some(&b'L'), "a large frame is taken once there is room for it");
            self.has_paused = !input.is_empty();
            if self.has_paused {
                self.output.push(input.split_to(1).freeze());
            }
            Ok(())
        }

        fn wake(&mut self, _now: Now) {}

        fn output(&mut self) -> &mut Output {
            &mut self.output
        }

        fn deadline(&self) -> Option<Monotonic> {
            None
        }

        fn wants_input(&self) -> bool {
            true
        }

        fn held_size(&self) -> usize {
            self.output.size()
        }

        fn idle_timeout_ms(&self) -> Option<u64> {
            Some(10_000)
        }

        fn has_paused(&self) -> bool {
            self.has_paused
        }

        fn frame_size(&self, input: &[u8]) -> usize {
            input.first().map_or(0, |first| if *first == b'L' { 16 << 20 } else { 1 })
        }
    }

    fn drive(stop: Stop, connections_max: u64) -> (Drive, mpsc::Receiver<()>) {
        let (_alive, ended) = mpsc::channel(1);
        let traffic = Arc::default();
        let (refusals_quiet_until, jobs, budget, tls) = Default::default();
        (Drive { traffic, stop, connections_max, refusals_quiet_until, jobs, budget, tls, _alive }, ended)
    }

    #[test]
    fn connections_beyond_the_bound_are_refused_and_counted_until_one_ends() {
        let (_stopper, stop) = watch::channel(false);
        let (drive, _ended) = drive(stop, 2);
        let peer = "10.0.0.1:5000".parse().expect("address");
        let permits: Vec<_> = (0..5).map(|_| drive.admit(peer)).collect();
        assert_eq!(permits.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false, false]);
        assert_eq!((drive.traffic.connections.get(), drive.traffic.connections_refused.get()), (2, 3));
        drop(permits);
        assert!(drive.admit(peer).is_some());
        assert_eq!((drive.traffic.connections.get(), drive.traffic.connections_accepted.get()), (0, 3));
    }

    /// Only the clock that nobody sets is asked, and what a session was told of the other moves nothing.
    #[test]
    fn setting_the_clock_by_an_hour_moves_no_deadline_and_no_idle_time() {
        let (_stopper, stop) = watch::channel(false);
        let (drive, _ended) = drive(stop, 10);
        let holding = Holding::of(drive.budget.clone());
        let begun = at(1_700_000_000_000);
        let after = |ms| begun.plus_ms(ms).monotonic;
        for by_ms in CLOCK_STEPS_MS {
            let mut session = Answering::after(Duration::from_secs(15));
            let idle = drive.pause(&mut session, &holding, after(0), after(59_999));
            assert!(matches!(idle, Pause::Until(Some(until)) if until == after(60_000)));
            assert!(matches!(drive.pause(&mut session, &holding, after(0), after(60_000)), Pause::Over(End::Idle)));
            session.receive(&mut BytesMut::from(&b"?"[..]), begun).expect("taken");
            session.wake(clock_set(begun, by_ms));
            let waits = drive.pause(&mut session, &holding, after(0), after(14_999));
            assert!(matches!(waits, Pause::Until(Some(until)) if until == after(15_000)));
            assert!(matches!(drive.pause(&mut session, &holding, after(0), after(15_000)), Pause::Due));
        }
    }

    /// A connection to a session that gives `answer` after `wait`, how often that was woken, and how it ends.
    async fn connect(
        answer: Bytes,
        wait: Duration,
        idle_timeout: Duration,
    ) -> (TcpStream, Arc<AtomicUsize>, tokio::task::JoinHandle<End>) {
        let (_stopper, stop) = watch::channel(false);
        connect_with(drive(stop, 10).0, 0, answer, (wait, idle_timeout)).await
    }

    /// The same, driven by `drive`, for requests of `request_size` bytes.
    async fn connect_with(
        mut drive: Drive,
        request_size: usize,
        answer: Bytes,
        (wait, idle_timeout): (Duration, Duration),
    ) -> (TcpStream, Arc<AtomicUsize>, tokio::task::JoinHandle<End>) {
        let (client, mut socket) = connection().await;
        let woken = Arc::new(AtomicUsize::new(0));
        let mut session =
            Answering { request_size, answer, woken: woken.clone(), idle_timeout, ..Answering::after(wait) };
        let (stopper, stop) = watch::channel(false);
        drive.stop = stop;
        let end = tokio::spawn(async move {
            let _stopper = stopper;
            drive.exchange(&mut socket, &mut session, &Wakeup::new().0).await
        });
        (client, woken, end)
    }

    /// The two ends of a connection.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connects");
        let (socket, _) = listener.accept().await.expect("accepts");
        (client, socket)
    }

    /// A connection to a session that pauses, and how it ends.
    async fn connect_pausing(mut drive: Drive) -> (TcpStream, tokio::task::JoinHandle<End>) {
        let (client, mut socket) = connection().await;
        let exchange = async move { drive.exchange(&mut socket, &mut Pausing::default(), &Wakeup::new().0).await };
        (client, tokio::spawn(exchange))
    }

    #[tokio::test]
    async fn a_large_frame_behind_a_pause_waits_for_room() {
        let (_stopper, stop) = watch::channel(false);
        let drive = drive(stop, 10).0;
        let _others = Held::taken(drive.budget.clone(), base::limits::CONNECTIONS_HELD_SIZE_MAX);
        let (mut client, end) = connect_pausing(drive).await;
        client.write_all(b"abL.........").await.expect("writes");
        client.read_exact(&mut [0; 2]).await.expect("the others are answered");
        // That nothing comes is the point.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!end.is_finished());
    }

    #[tokio::test]
    async fn a_session_that_pauses_goes_on_once_its_answers_are_written() {
        let (_stopper, stop) = watch::channel(false);
        let drive = drive(stop, 10).0;
        let budget = drive.budget.clone();
        let (mut client, end) = connect_pausing(drive).await;
        client.write_all(b"abcdefgh").await.expect("writes");
        let mut answers = [0; 8];
        client.read_exact(&mut answers).await.expect("all are answered, without more bytes");
        assert_eq!(&answers, b"abcdefgh");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !Held::of(budget.clone()).try_set(base::limits::CONNECTIONS_HELD_SIZE_MAX) {
            assert!(Instant::now() < deadline, "a connection that has nothing to do keeps no buffer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(client);
        assert!(matches!(end.await, Ok(End::Quiet)));
    }

    #[tokio::test]
    async fn who_waits_longer_than_the_idle_time_is_answered_and_costs_nothing_meanwhile() {
        let (mut client, woken, end) =
            connect(Bytes::from_static(b"answer"), Duration::from_millis(400), Duration::from_millis(50)).await;
        client.write_all(b"?").await.expect("writes");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("reads");
        assert_eq!(answer, b"answer");
        assert!(matches!(end.await, Ok(End::Idle)));
        assert!(woken.load(Ordering::Relaxed) <= 3, "woken {} times", woken.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn who_takes_its_answer_slowly_is_not_idle() {
        const SIZE: usize = 24 << 20;
        let idle_timeout = Duration::from_millis(800);
        let (mut client, _, end) = connect(vec![0; SIZE].into(), Duration::ZERO, idle_timeout).await;
        client.write_all(b"?").await.expect("writes");
        let mut part = vec![0; SIZE / 24];
        for _ in 0..24 {
            // Slow is the point: all of it takes twice the idle time.
            tokio::time::sleep(idle_timeout / 12).await;
            client.read_exact(&mut part).await.expect("it goes on");
        }
        assert_eq!(client.read(&mut part).await.expect("closed in good order"), 0);
        assert!(matches!(end.await, Ok(End::Idle)));
    }

    #[tokio::test]
    async fn who_takes_nothing_of_what_waits_for_it_is_closed_after_the_idle_time() {
        let (mut client, _, end) = connect(vec![0; 64 << 20].into(), Duration::ZERO, Duration::from_millis(100)).await;
        client.write_all(b"?").await.expect("writes");
        assert!(matches!(end.await, Ok(End::Stuck)));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_keeps_no_block_of_the_log_in_memory() {
        const SIZE: usize = 24 << 20;
        let block = Bytes::from(vec![7; SIZE]);
        let (mut client, _, _end) = connect(block.clone(), Duration::ZERO, Duration::from_secs(60)).await;
        client.write_all(b"?").await.expect("writes");
        let mut answer = vec![0; SIZE];
        client.read_exact(&mut answer[..1]).await.expect("it comes");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !block.is_unique() {
            assert!(Instant::now() < deadline, "it is kept for as long as nobody reads");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.read_exact(&mut answer[1..]).await.expect("all of it comes");
        assert!(answer == block);
    }

    #[tokio::test]
    async fn a_large_request_that_waited_long_for_room_is_read_then() {
        const SIZE: usize = 1 << 20;
        let idle_timeout = Duration::from_secs(1);
        let (_stopper, stop) = watch::channel(false);
        let drive = drive(stop, 10).0;
        let others = Held::taken(drive.budget.clone(), base::limits::CONNECTIONS_HELD_SIZE_MAX);
        let answer = Bytes::from_static(b"answer");
        let (mut client, _, end) = connect_with(drive, SIZE, answer, (Duration::ZERO, idle_timeout)).await;
        client.write_all(&[0; 100]).await.expect("writes");
        // Waiting longer than the idle time is the point.
        tokio::time::sleep(2 * idle_timeout).await;
        assert!(!end.is_finished(), "it waits for room");
        drop(others);
        client.write_all(&vec![0; SIZE - 100]).await.expect("writes");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("reads");
        assert_eq!(answer, b"answer");
        assert!(matches!(end.await, Ok(End::Idle)));
    }
}
