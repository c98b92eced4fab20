//! A session around a session: TLS between the bytes of a socket and those of a protocol.
//!
//! Whether a connection speaks TLS is decided by its first byte, as in RocketMQ. A plain connection costs nothing more than that.
//!
//! **Bounds.** What came in is decrypted as far as it goes and offered to the inner session, which says when it wants more; nothing is
//! read before it does. Of the inner session's output at most `CIPHERTEXT_AHEAD` is encrypted before the peer takes it: the rest stays
//! where it is, shared with the log and within the bounds of a plain connection.

use std::io::{BufRead as _, IoSlice, Write as _};
use std::sync::Arc;

use base::budget::{self, Budget};
use base::limits::READ_SIZE;
use base::session::{CloseReason, Job, Output, Session};
use base::{Monotonic, Now};
use bytes::{Buf as _, BytesMut};
use rustls::{ClientConnection, Connection};

use crate::port::{Opening, Port};
use crate::subject::subject_of;

/// A TLS record's first byte when a client begins with a handshake. As the length of a RocketMQ frame it would be far too large.
const HANDSHAKE: u8 = 0x16;

/// Ciphertext made ahead of what the peer takes.
const CIPHERTEXT_AHEAD: usize = 256 * 1024;

/// A handshake is to end within this time.
const HANDSHAKE_LIMIT_MS: u64 = 10_000;

const WRITE_SLICES: usize = 64;

/// Why a plain client is refused.
const WANTED_BUT_PLAIN: &str = "the client does not speak TLS, which this port demands (tls.mode = enforcing, or a port of TLS alone); switch it on there: tls.enable=true for RocketMQ, amqps:// for RabbitMQ";

/// A session behind TLS, if its connection speaks it.
pub struct TlsSession<S> {
    inner: S,
    channel: Channel,
    /// Decrypted bytes that the inner session has not taken.
    plaintext: BytesMut,
    ciphertext: Output,
    /// When the handshake must have ended.
    handshake_until: Option<Monotonic>,
    refused: Option<String>,
}

enum Channel {
    /// Nothing was received yet.
    Undecided(Arc<dyn Port>),
    Plain,
    Tls {
        connection: Box<Connection>,
        /// Where it came in; `None` if the process opened it.
        port: Option<Arc<dyn Port>>,
    },
}

impl<S: Session> TlsSession<S> {
    /// A connection that speaks TLS or not, as `port` and its first byte say.
    pub fn undecided(inner: S, port: Arc<dyn Port>, now: Monotonic) -> Self {
        let handshake_until = (port.opening() == Opening::Tls).then(|| now.plus_ms(HANDSHAKE_LIMIT_MS));
        Self { channel: Channel::Undecided(port), handshake_until, ..Self::plain(inner) }
    }

    /// A connection that the process opened, which speaks TLS.
    pub fn outbound(inner: S, connection: ClientConnection, now: Monotonic) -> Self {
        let channel = Channel::Tls { connection: Box::new(connection.into()), port: None };
        Self { channel, handshake_until: Some(now.plus_ms(HANDSHAKE_LIMIT_MS)), ..Self::plain(inner) }
    }

    /// A connection that does not speak TLS.
    pub fn plain(inner: S) -> Self {
        let (plaintext, ciphertext) = (BytesMut::new(), Output::default());
        Self { inner, channel: Channel::Plain, plaintext, ciphertext, handshake_until: None, refused: None }
    }

    /// Whether the connection is closed for its TLS, or for the want of it.
    pub const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The session behind it.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// The session behind it, to be told what came by another way than the connection.
    pub const fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    fn refuse(&mut self, reason: String) -> CloseReason {
        self.refused = Some(reason.clone());
        CloseReason(reason)
    }

    /// Chooses by the first byte, once it is there.
    fn decide(&mut self, first: u8, now: Monotonic) -> Result<(), CloseReason> {
        let Channel::Undecided(port) = &self.channel else { return Ok(()) };
        let port = port.clone();
        match (port.opening(), first == HANDSHAKE) {
            (Opening::Tls, false) => return Err(self.refuse(WANTED_BUT_PLAIN.to_owned())),
            (Opening::Plain | Opening::Either, false) => self.channel = Channel::Plain,
            (_, true) => {
                let connection = port.accept().map_err(|reason| self.refuse(reason))?;
                self.handshake_until.get_or_insert(now.plus_ms(HANDSHAKE_LIMIT_MS));
                self.channel = Channel::Tls { connection: Box::new(connection.into()), port: Some(port) };
            }
        }
        Ok(())
    }

    /// Decrypts all of `input` that is whole; rustls keeps the rest, which is less than one TLS record.
    fn decrypt(&mut self, input: &mut BytesMut) -> Result<(), CloseReason> {
        let Channel::Tls { connection, port } = &mut self.channel else { return Ok(()) };
        let was_handshaking = connection.is_handshaking();
        let mut outcome = Ok(());
        while !input.is_empty() && connection.wants_read() && outcome.is_ok() {
            let mut unread: &[u8] = input;
            let taken = connection.read_tls(&mut unread);
            outcome = match &taken {
                Ok(_) => connection.process_new_packets().map(drop),
                Err(error) => Err(rustls::Error::General(error.to_string())),
            };
            input.advance(taken.unwrap_or_default());
            take_decrypted(connection, &mut self.plaintext);
            // In a handshake rustls reads on once its own words are taken.
            take_encrypted(connection, &mut self.ciphertext);
        }
        // It wants to read until the peer's farewell, and after that nothing counts.
        input.clear();
        if was_handshaking && !connection.is_handshaking() {
            self.handshake_until = None;
            if let Some(port) = port {
                port.note_handshake();
                let certificate = connection.peer_certificates().and_then(<[_]>::first);
                if let Some(subject) = certificate.and_then(|certificate| subject_of(certificate)) {
                    self.inner.proven(subject);
                }
            }
        }
        let is_outbound = port.is_none();
        self.encrypt();
        outcome.map_err(|error| {
            self.refuse(if is_outbound { format!("no TLS with the server: {error}") } else { named(&error) })
        })
    }

    /// Encrypts what the peer may take soon.
    fn encrypt(&mut self) {
        let Channel::Tls { connection, .. } = &mut self.channel else { return };
        loop {
            take_encrypted(connection, &mut self.ciphertext);
            let output = self.inner.output();
            let is_ahead = self.ciphertext.size() >= CIPHERTEXT_AHEAD;
            if is_ahead || output.is_empty() || connection.is_handshaking() || self.refused.is_some() {
                return;
            }
            let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
            let count = output.io_slices(&mut slices);
            match connection.writer().write_vectored(slices.get(..count).unwrap_or_default()) {
                Ok(taken) if taken > 0 => output.advance(taken),
                _ => return,
            }
        }
    }

    /// An idle connection keeps no buffer, and a few bytes no large one.
    fn shrink(&mut self) {
        if self.plaintext.is_empty() {
            self.plaintext = BytesMut::new();
        } else if self.plaintext.len() < budget::STEP && self.plaintext.capacity() > 2 * budget::STEP {
            self.plaintext = BytesMut::from(&*self.plaintext);
        }
    }
}

impl<S: Session> Session for TlsSession<S> {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        if let Some(first) = input.first() {
            self.decide(*first, now.monotonic)?;
        }
        match self.channel {
            Channel::Undecided(_) => return Ok(()),
            Channel::Plain => return self.inner.receive(input, now),
            Channel::Tls { .. } => {}
        }
        // That this is called means that a large frame may be read.
        self.plaintext.reserve(self.frame_size(&[]).saturating_sub(self.plaintext.len()));
        self.decrypt(input)?;
        let outcome = self.inner.receive(&mut self.plaintext, now);
        self.shrink();
        self.encrypt();
        outcome
    }

    fn wake(&mut self, now: Now) {
        if self.handshake_until.take_if(|until| *until <= now.monotonic).is_some() {
            self.refuse(format!("no TLS handshake within {} s", HANDSHAKE_LIMIT_MS / 1000));
        }
        self.inner.wake(now);
    }

    fn output(&mut self) -> &mut Output {
        if matches!(self.channel, Channel::Plain) {
            return self.inner.output();
        }
        self.encrypt();
        &mut self.ciphertext
    }

    fn deadline(&self) -> Option<Monotonic> {
        self.handshake_until.into_iter().chain(self.inner.deadline()).min()
    }

    fn wants_input(&self) -> bool {
        // A peer that has handshakes answered and takes no answer is not read either.
        self.inner.wants_input() && self.ciphertext.size() < 2 * CIPHERTEXT_AHEAD
    }

    fn held_size(&self) -> usize {
        let announced = self.frame_size(&[]);
        // The driver counts a large frame from its announcement.
        let counted = if announced > READ_SIZE { announced } else { 0 };
        self.inner.held_size() + self.ciphertext.size() + self.plaintext.capacity().saturating_sub(counted)
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        match self.channel {
            Channel::Undecided(_) => 0,
            Channel::Plain => self.inner.frame_size(input),
            Channel::Tls { .. } => {
                let announced = self.inner.frame_size(&self.plaintext);
                if announced > self.plaintext.len() { announced } else { 0 }
            }
        }
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.inner.share(budget);
    }

    fn note_unread(&mut self, now: Monotonic) {
        self.inner.note_unread(now);
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        self.inner.idle_timeout_ms()
    }

    fn is_busy(&self) -> bool {
        self.inner.is_busy()
    }

    fn has_paused(&self) -> bool {
        self.inner.has_paused()
    }

    fn holds_input(&self) -> bool {
        !self.plaintext.is_empty() || self.inner.holds_input()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.refused.clone().map(CloseReason).or_else(|| self.inner.close_reason())
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// What is encrypted is shared with nobody.
    fn detach_output(&mut self) {
        self.inner.detach_output();
    }

    fn finish(&mut self) {
        self.inner.finish();
        self.encrypt();
        if let Channel::Tls { connection, .. } = &mut self.channel {
            connection.send_close_notify();
        }
    }

    fn take_job(&mut self) -> Option<Job> {
        self.inner.take_job()
    }

    fn closed(&mut self, now: Now) {
        self.inner.closed(now);
    }
}

fn take_decrypted(connection: &mut Connection, plaintext: &mut BytesMut) {
    let mut reader = connection.reader();
    while let Ok(decrypted @ [_, ..]) = reader.fill_buf() {
        plaintext.extend_from_slice(decrypted);
        let size = decrypted.len();
        reader.consume(size);
    }
}

fn take_encrypted(connection: &mut Connection, ciphertext: &mut Output) {
    while connection.wants_write() {
        let mut piece = Vec::new();
        // Memory takes everything.
        let _ = connection.write_tls(&mut piece);
        ciphertext.push(piece.into());
    }
}

/// What is wrong with a client's TLS, for people.
fn named(error: &rustls::Error) -> String {
    match error {
        rustls::Error::NoCertificatesPresented => {
            "the client has no certificate, and tls.client_auth demands one".to_owned()
        }
        rustls::Error::InvalidCertificate(problem) => {
            format!("the client's certificate does not hold against tls.client_ca: {problem}")
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the client ended TLS with the alert {alert:?}; it may not trust this server's certificate")
        }
        rustls::Error::InvalidMessage(_) => format!("bytes that are no TLS: {error}"),
        _ => format!("no TLS with this client: {error}"),
    }
}
