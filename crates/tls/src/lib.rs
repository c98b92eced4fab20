//! TLS between the bytes of a socket and those of a protocol, as a session around a session.
//!
//! Owns neither socket, clock nor file: who accepts connections says by a [`Port`] how they begin and with which certificate, and who
//! opens one brings rustls's connection. Every protocol and every driver, the simulation's too, uses the same one.

mod any_certificate;
mod port;
mod session;
mod subject;

use std::sync::Arc;

pub use any_certificate::AnyCertificate;
pub use port::{Opening, Port};
pub use session::TlsSession;

/// The one implementation of ciphers that is built in.
pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
