//! One connection with much under way: a non-blocking socket with what waits to be written and what was read.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use base::limits::FRAME_SIZE_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::ClientError;
use crate::socket::Socket;

const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;

/// Bytes read at once: more than a full window of replies.
const READ_SIZE: usize = 256 * 1024;

/// Connects to `address`; see [`Socket`].
pub fn connect(role: &'static str, address: &str) -> Result<Socket, ClientError> {
    Socket::connect(address).map_err(|source| ClientError::Unreachable { role, address: address.to_owned(), source })
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    socket: Socket,
    address: String,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    start: usize,
    end: usize,
    has_ended: bool,
    fault: Option<String>,
}

impl Link {
    /// Connects to a broker.
    pub fn open(address: &str) -> Result<Self, ClientError> {
        Self::over(connect("broker", address)?, address)
    }

    /// A connection to the broker at `address` that is open already, of which nothing is left to be read or written.
    pub fn over(socket: Socket, address: &str) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { role: "broker", address: address.to_owned(), source };
        socket.stream().set_nonblocking(true).map_err(unreachable)?;
        Ok(Self {
            socket,
            address: address.to_owned(),
            out: Vec::new(),
            written: 0,
            input: vec![0; READ_SIZE],
            start: 0,
            end: 0,
            has_ended: false,
            fault: None,
        })
    }

    /// Whether the connection can still be used.
    pub const fn is_open(&self) -> bool {
        self.fault.is_none() && !self.has_ended
    }

    /// Address of the broker.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Why it cannot be used.
    pub fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(|fault| format!("{}: {fault}", self.address))
    }

    /// The connection has ended as it should.
    pub fn end(&mut self) {
        self.has_ended = true;
        self.out.clear();
        self.written = 0;
    }

    /// Gives the connection up.
    pub fn fail(&mut self, problem: impl Into<String>) {
        if self.has_ended {
            return;
        }
        self.fault.get_or_insert(problem.into());
        self.out.clear();
        self.written = 0;
    }

    /// Whether everything appended so far was handed to the system.
    pub fn is_flushed(&self) -> bool {
        self.written == self.out.len() && self.socket.is_flushed()
    }

    /// The buffer frames are appended to; meant to be filled only while flushed.
    pub const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes what is waiting, as far as the system takes it.
    pub fn flush(&mut self) {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(0) => return self.fail("the system takes no more bytes"),
                Ok(size) => self.written += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.fail(format!("write: {error}")),
            }
        }
        self.out.clear();
        self.written = 0;
        match self.socket.flush() {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.fail(format!("write: {error}"));
            }
            _ => {}
        }
    }

    /// Reads once, as much as there is room for, and what the socket has of that already.
    pub fn fill(&mut self) {
        self.read_once();
        while self.is_open() && self.socket.has_more() {
            self.read_once();
        }
    }

    fn read_once(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.input.len() - self.end < READ_SIZE / 2 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            // Only a frame larger than the buffer leaves no room after it was moved to the front.
            let wanted = (self.end + READ_SIZE).min(FRAME_SIZE_MAX + READ_SIZE);
            if self.input.len() < wanted {
                self.input.resize(wanted, 0);
            }
        }
        match self.socket.read(&mut self.input[self.end..]) {
            Ok(0) => self.fail("closed by the broker"),
            Ok(size) => self.end += size,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.fail(format!("read: {error}")),
        }
    }

    /// What was read and not taken yet.
    pub fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Takes so many bytes of that.
    pub fn take(&mut self, size: usize) {
        self.start = (self.start + size).min(self.end);
    }

    /// The next complete frame of what was read; `frame_len` tells how long it is, once that can be told, or why it is none.
    pub fn next_frame(&mut self, frame_len: impl FnOnce(&[u8]) -> Result<Option<usize>, String>) -> Option<&[u8]> {
        match frame_len(&self.input[self.start..self.end]) {
            Ok(Some(size)) => {
                let frame = self.start..self.start + size;
                self.start += size;
                Some(&self.input[frame])
            }
            Ok(None) => None,
            Err(problem) => {
                self.fail(problem);
                None
            }
        }
    }
}

/// Waits until one of `links` can be read, or written where something waits to be, at most `timeout_ns`; then reads
/// those that can be. `readable` becomes true for each link that was read from.
pub fn wait_and_fill(links: &mut [&mut Link], timeout_ns: u64, readable: &mut Vec<bool>) -> io::Result<()> {
    readable.clear();
    {
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(links.len());
        for link in links.iter() {
            let wanted = match (link.is_open(), link.is_flushed()) {
                (false, _) => PollFlags::empty(),
                (true, true) => PollFlags::IN,
                (true, false) => PollFlags::IN | PollFlags::OUT,
            };
            polled.push(PollFd::new(&link.socket, wanted));
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout_ns / NANOSECONDS_A_SECOND).unwrap_or(1),
            tv_nsec: i64::try_from(timeout_ns % NANOSECONDS_A_SECOND).unwrap_or(0),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
        readable.extend(polled.iter().map(|link| link.revents().intersects(ready)));
    }
    for (link, readable) in links.iter_mut().zip(readable.iter_mut()) {
        *readable &= link.is_open();
        if *readable {
            link.fill();
        }
    }
    Ok(())
}

/// Sends what waits to be, and waits until something has come over one of `links`, at most until `until`.
pub fn flush_and_wait(mut links: Vec<&mut Link>, until: Instant) -> Result<(), ClientError> {
    for link in &mut links {
        link.flush();
    }
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let nanoseconds = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    let address = links.first().map(|link| link.address.clone()).unwrap_or_default();
    wait_and_fill(&mut links, nanoseconds, &mut Vec::new())
        .map_err(|error| ClientError::Lost { address, problem: error.to_string() })
}

/// Sleeps when there is no connection to wait for.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}
