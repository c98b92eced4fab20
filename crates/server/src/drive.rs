//! Moves bytes between one socket and one session until either ends.
//!
//! Reads until the socket would block or the session wants no more, writes what the session gives, runs its jobs away from
//! the network threads, and wakes it when its bell is rung or its deadline has come.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::metric::Traffic;
use base::session::Session;
use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::bell::Bell;
use crate::clock;

/// Bytes read at once: some hundred messages of 1 KiB make a turn.
const READ_SIZE: usize = 256 * 1024;

/// Slices given to one vectored write.
const WRITE_SLICES: usize = 256;

/// Read buffers a network thread keeps for whichever connection reads next.
const POOLED_BUFFERS: usize = 4;

thread_local! {
    static BUFFERS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// How the process is told to stop.
pub(crate) type Stop = watch::Receiver<bool>;

/// What every connection is driven with.
#[derive(Clone)]
pub(crate) struct Drive {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) stop: Stop,
    /// A connection without a byte for this long is closed.
    pub(crate) idle_timeout: Duration,
    /// Connections beyond this are closed at once.
    pub(crate) connections_max: u64,
    /// Dropped with the last connection: how the process knows that all have ended.
    pub(crate) _alive: mpsc::Sender<()>,
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The peer closed it, or the process stops.
    Quiet,
    Io(io::Error),
    Protocol(String),
    Idle,
}

impl Drive {
    /// Whether one more connection may be served. If not, it is to be closed at once: the client sees it and tries
    /// elsewhere or later.
    pub(crate) fn has_room(&self, peer: SocketAddr) -> bool {
        let has_room = self.traffic.connections.get() < self.connections_max;
        if !has_room {
            tracing::warn!(%peer, max = self.connections_max, "too many connections (server.connections_max)");
        }
        has_room
    }

    /// Drives `session` over `socket` until one of them ends.
    pub(crate) async fn run(mut self, mut socket: TcpStream, mut session: impl Session, bell: Arc<Bell>, peer: String) {
        self.traffic.connections.add(1);
        self.traffic.connections_accepted.add(1);
        let end = self.exchange(&mut socket, &mut session, &bell).await;
        session.closed(clock::now());
        self.traffic.connections.subtract(1);
        match end {
            End::Quiet => tracing::debug!(peer, "connection closed"),
            End::Idle => tracing::info!(peer, "connection closed: idle"),
            End::Io(error) => tracing::debug!(peer, %error, "connection lost"),
            End::Protocol(reason) => {
                self.traffic.protocol_errors.add(1);
                tracing::warn!(peer, reason, "connection closed: what it sent is not this protocol");
            }
        }
    }

    async fn exchange(&mut self, socket: &mut TcpStream, session: &mut impl Session, bell: &Bell) -> End {
        let mut input = BytesMut::new();
        // Whether `input` has frames that the session had no room to answer.
        let mut is_held = false;
        let mut stopping = *self.stop.borrow();
        let mut idle_since = tokio::time::Instant::now();
        loop {
            while let Some(job) = session.take_job() {
                tokio::task::spawn_blocking(job);
            }
            if let Err(error) = self.write(socket, session) {
                return End::Io(error);
            }
            if is_held && session.wants_input() {
                if let Err(end) = self.receive(session, &mut input) {
                    let _ = self.write(socket, session);
                    return end;
                }
                is_held = !input.is_empty() && !session.wants_input();
                continue;
            }
            if stopping && !session.is_busy() && session.output().is_empty() {
                return End::Quiet;
            }
            let mut interest = None;
            if session.wants_input() && !stopping {
                interest = Some(Interest::READABLE);
            }
            if !session.output().is_empty() {
                interest = Some(interest.map_or(Interest::WRITABLE, |known| known | Interest::WRITABLE));
            }
            let deadline = session.deadline().map(|deadline| tokio::time::Instant::now() + clock::until(deadline));
            let idle_at = idle_since + self.idle_timeout;
            let next_timer = deadline.map_or(idle_at, |deadline| deadline.min(idle_at));
            tokio::select! {
                ready = socket.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => {
                    match ready {
                        Ok(ready) if ready.is_readable() && session.wants_input() && !stopping => {
                            idle_since = tokio::time::Instant::now();
                            match self.read(socket, session, &mut input).await {
                                Ok(true) => is_held = !input.is_empty() && !session.wants_input(),
                                Ok(false) => return End::Quiet,
                                Err(end) => { let _ = self.write(socket, session); return end; }
                            }
                        }
                        Ok(_) => {}
                        Err(error) => return End::Io(error),
                    }
                }
                () = bell.rung() => session.wake(clock::now()),
                () = tokio::time::sleep_until(next_timer) => {
                    session.wake(clock::now());
                    if idle_at <= tokio::time::Instant::now() && !session.is_busy() && session.deadline().is_none() {
                        return End::Idle;
                    }
                }
                _ = self.stop.changed(), if !stopping => stopping = true,
            }
        }
    }

    /// Reads once and hands what came to the session. `false`: the peer closed.
    async fn read(
        &self,
        socket: &mut TcpStream,
        session: &mut impl Session,
        input: &mut BytesMut,
    ) -> Result<bool, End> {
        if input.is_empty() {
            *input = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        if input.capacity() - input.len() < READ_SIZE / 4 {
            input.reserve(READ_SIZE);
        }
        // Polled once. Unlike `try_read_buf` it takes a read that does not fill the buffer as the end of what is there: the next
        // turn waits, and does not first ask the system once more.
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
            // An idle connection keeps no buffer.
            give_back(std::mem::take(input));
        }
        outcome
    }

    /// Hands what was read to the session.
    fn receive(&self, session: &mut impl Session, input: &mut BytesMut) -> Result<(), End> {
        session.receive(input, clock::now()).map_err(|reason| End::Protocol(reason.0))
    }

    /// Writes what the session has until the socket would block.
    fn write(&self, socket: &TcpStream, session: &mut impl Session) -> io::Result<()> {
        let output = session.output();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
            let count = output.io_slices(&mut slices);
            match socket.try_write_vectored(slices.get(..count).unwrap_or_default()) {
                Ok(written) => {
                    output.advance(written);
                    self.traffic.bytes_sent.add(written as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Keeps a buffer for whichever connection reads next.
fn give_back(buffer: BytesMut) {
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < POOLED_BUFFERS && buffer.capacity() <= 2 * READ_SIZE {
            buffers.push(buffer);
        }
    });
}
