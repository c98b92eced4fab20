//! TLS in a story: the port that connections come in at, and a client's end.
//!
//! Keys and random bytes are other ones each time. No story depends on them: they are of one length, and of what is encrypted only the
//! length is seen.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, LazyLock};

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use tls::{AnyCertificate, Opening, Port};

/// Bytes of a client's records with what TLS adds to them, at the most.
const FRAGMENT_SIZE: usize = 200;

/// What every server of a story has; an error tells why there is none. Ed25519 has signatures of one length, ECDSA has not.
static SERVER: LazyLock<Result<Arc<ServerConfig>, String>> =
    LazyLock::new(|| server().map_err(|error| error.to_string()));

/// What every client has.
static CLIENT: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::<AnyCertificate>::default());
    let mut config = builder.with_no_client_auth();
    // A request takes several records, so that what is decrypted is often no whole frame.
    config.max_fragment_size = Some(FRAGMENT_SIZE);
    Ok(Arc::new(config))
});

fn server() -> Result<Arc<ServerConfig>, Box<dyn std::error::Error>> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut params = CertificateParams::new(vec!["node".to_owned()])?;
    // One that is made of the key is a byte shorter at times.
    params.serial_number = Some(SerialNumber::from(1));
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::try_from(key.serialize_der())?;
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)?))
}

/// A port whose connections speak TLS or not, as they like.
pub(crate) struct SimPort;

impl Port for SimPort {
    fn opening(&self) -> Opening {
        Opening::Either
    }

    fn accept(&self) -> Result<ServerConnection, String> {
        ServerConnection::new(SERVER.clone()?).map_err(|error| error.to_string())
    }

    fn note_handshake(&self) {}
}

/// The TLS of who opens a connection.
pub(crate) fn connection() -> Result<ClientConnection, String> {
    let config = CLIENT.clone().map_err(|error| error.to_string())?;
    let name = ServerName::try_from("node").map_err(|error| error.to_string())?;
    ClientConnection::new(config, name).map_err(|error| error.to_string())
}

/// A client's end of a connection.
pub(crate) enum ClientEnd {
    Plain,
    Tls(Box<ClientConnection>),
}

impl ClientEnd {
    /// One that speaks TLS, and has not said hello yet.
    pub(crate) fn secured() -> Result<Self, String> {
        let mut connection = connection()?;
        // What is asked waits for as long as the handshake takes.
        connection.set_buffer_limit(None);
        Ok(Self::Tls(Box::new(connection)))
    }

    /// Whether what it says still waits for the handshake.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(connection) if connection.is_handshaking())
    }

    /// What the client says, as it goes over the wire, after what waits to be said.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, String> {
        let Self::Tls(connection) = self else { return Ok(plaintext.to_vec()) };
        let mut ciphertext = Vec::new();
        connection.writer().write_all(plaintext).map_err(|error| error.to_string())?;
        while connection.wants_write() {
            connection.write_tls(&mut ciphertext).map_err(|error| error.to_string())?;
        }
        Ok(ciphertext)
    }

    /// What the client is told by what came over the wire, as far as that goes.
    pub(crate) fn decrypt(&mut self, ciphertext: Vec<u8>) -> Result<Vec<u8>, String> {
        let Self::Tls(connection) = self else { return Ok(ciphertext) };
        let mut plaintext = Vec::new();
        let mut unread = &ciphertext[..];
        while !unread.is_empty() {
            connection.read_tls(&mut unread).map_err(|error| error.to_string())?;
            let state = connection.process_new_packets().map_err(|error| error.to_string())?;
            let before = plaintext.len();
            plaintext.resize(before + state.plaintext_bytes_to_read(), 0);
            connection.reader().read_exact(&mut plaintext[before..]).map_err(|error| error.to_string())?;
        }
        Ok(plaintext)
    }
}
