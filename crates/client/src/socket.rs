//! The socket of a connection, behind TLS or not. An address with [`TLS`] in front is one that speaks it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tls::AnyCertificate;

/// In front of an address that speaks TLS.
pub const TLS: &str = "tls://";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes read at once.
const READ_SIZE: usize = 256 * 1024;

/// What every TLS connection is made with; making it costs more than a handshake.
static CONFIG: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions()?;
    // Traffic is hidden from others; who the broker is, nobody checks.
    let trusting = builder.dangerous().with_custom_certificate_verifier(Arc::<AnyCertificate>::default());
    Ok(Arc::new(trusting.with_no_client_auth()))
});

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Tls(Box<Tls>),
}

/// A socket that speaks TLS.
#[derive(Debug)]
pub struct Tls {
    stream: TcpStream,
    connection: ClientConnection,
    ciphertext: Vec<u8>,
    plaintext: Vec<u8>,
    /// How much of that was taken.
    taken: usize,
}

impl Socket {
    /// Connects, trying each of the addresses its name has.
    pub fn connect(address: &str) -> io::Result<Self> {
        let Some(named) = address.strip_prefix(TLS) else { return tcp(address).map(Self::Plain) };
        let mut stream = tcp(named)?;
        let host = named.rsplit_once(':').map_or(named, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = CONFIG.clone().map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        // As much is encrypted at once as is written at once.
        connection.set_buffer_limit(None);
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        let (ciphertext, plaintext) = (vec![0; READ_SIZE], Vec::new());
        Ok(Self::Tls(Box::new(Tls { stream, connection, ciphertext, plaintext, taken: 0 })))
    }

    /// The socket by itself.
    pub const fn stream(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => &tls.stream,
        }
    }

    /// Whether something was read of the system that nobody has taken yet: the system has no news of it.
    pub fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.taken < tls.plaintext.len(),
        }
    }

    /// Whether the system has taken all that was written.
    pub fn is_flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => !tls.connection.wants_write(),
        }
    }
}

impl Tls {
    /// Decrypts what the system has, once.
    fn receive(&mut self) -> io::Result<usize> {
        let size = self.stream.read(&mut self.ciphertext)?;
        let mut unread = self.ciphertext.get(..size).unwrap_or_default();
        self.plaintext.clear();
        self.taken = 0;
        while !unread.is_empty() {
            self.connection.read_tls(&mut unread)?;
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            let begin = self.plaintext.len();
            self.plaintext.resize(begin + state.plaintext_bytes_to_read(), 0);
            self.connection.reader().read_exact(&mut self.plaintext[begin..])?;
        }
        Ok(size)
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let tls = match self {
            Self::Plain(stream) => return stream.read(into),
            Self::Tls(tls) => tls,
        };
        while tls.taken == tls.plaintext.len() {
            if tls.receive()? == 0 {
                return Ok(0);
            }
        }
        let size = into.len().min(tls.plaintext.len() - tls.taken);
        into[..size].copy_from_slice(&tls.plaintext[tls.taken..tls.taken + size]);
        tls.taken += size;
        Ok(size)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => {
                let taken = tls.connection.writer().write(bytes)?;
                self.flush()
                    .or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) })?;
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            while tls.connection.wants_write() {
                tls.connection.write_tls(&mut tls.stream)?;
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream().as_fd()
    }
}

fn tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
