//! What a connection that came in asks the port it came in at.

use rustls::ServerConnection;

/// How a connection may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Without TLS only.
    Plain,
    /// With TLS only.
    Tls,
    /// With it or without it: the first byte decides.
    Either,
}

/// A port that connections come in at, shared by all of them.
pub trait Port: Send + Sync {
    /// How they may begin.
    fn opening(&self) -> Opening;

    /// A new TLS connection with the certificate of now. If it asks clients for certificates, it verifies those it is given. The error says why there is none, for people.
    fn accept(&self) -> Result<ServerConnection, String>;

    /// A handshake has succeeded.
    fn note_handshake(&self);
}
