//! Connections that a broker opens to name servers, with TLS if it is set.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use settings::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificates::{KeyPairFiles, PemFile, provider};
use super::own::{OwnConnection, OwnConnections};
use crate::error::StartError;

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) enum Connector {
    Plain,
    /// To the process itself.
    Own(OwnConnections),
    Tls(Arc<ClientFiles>),
}

/// What outbound connections are made with; read for each of them, so that changed files are used.
#[derive(Debug)]
pub(crate) struct ClientFiles {
    /// `None`: any certificate will do.
    authorities: Option<PemFile>,
    pair: Option<KeyPairFiles>,
}

/// Bytes of an outbound connection, behind TLS or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection.
pub(crate) struct Connected {
    pub(crate) stream: Box<dyn Stream>,
    _own: Option<OwnConnection>,
}

/// How these settings have name servers connected to.
pub(crate) fn connector(tls: &Tls) -> Result<Connector, StartError> {
    if !tls.outbound {
        return Ok(Connector::Plain);
    }
    let file = |setting, path: &Option<PathBuf>| path.as_ref().map(|path| PemFile::new(setting, path));
    let certificate = file("tls.outbound_certificate", &tls.outbound_certificate);
    let key = file("tls.outbound_key", &tls.outbound_key);
    let files = ClientFiles {
        authorities: file("tls.outbound_ca", &tls.outbound_ca).filter(|_| tls.outbound_verify),
        pair: certificate.zip(key).map(|(certificate, key)| KeyPairFiles { certificate, key }),
    };
    // What is wrong with them is told at the start.
    files.config()?;
    Ok(Connector::Tls(Arc::new(files)))
}

impl Connector {
    pub(crate) async fn connect(&self, address: &str) -> Result<Connected, String> {
        if let Self::Own(all) = self {
            let (socket, own) = all.connect(address).await.map_err(|error| error.to_string())?;
            let _ = socket.set_nodelay(true);
            return Ok(Connected { stream: Box::new(socket), _own: Some(own) });
        }
        let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let _ = socket.set_nodelay(true);
        let Self::Tls(files) = self else { return Ok(Connected { stream: Box::new(socket), _own: None }) };
        let files = files.clone();
        let config = tokio::task::spawn_blocking(move || files.config()).await.map_err(|error| error.to_string())?;
        let config = config.map_err(|error| error.to_string())?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("[{host}]: {error}"))?;
        let secured = TlsConnector::from(config).connect(name, socket).await;
        let stream = secured.map_err(|error| format!("no TLS with the name server: {error}"))?;
        Ok(Connected { stream: Box::new(stream), _own: None })
    }
}

impl ClientFiles {
    fn config(&self) -> Result<Arc<ClientConfig>, StartError> {
        let bad = |error: rustls::Error| StartError::Setting { name: "tls.outbound", problem: error.to_string() };
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(bad)?;
        let builder = match &self.authorities {
            Some(file) => builder.with_root_certificates(file.authorities(&file.read()?)?),
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider()))),
        };
        let Some(pair) = &self.pair else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let (chain, key) = pair.read(&pair.certificate.read()?, &pair.key.read()?)?;
        builder.with_client_auth_cert(chain, key).map(Arc::new).map_err(|error| pair.misfit(&error))
    }
}

/// Takes any certificate whose key the server has: `tls.outbound_verify = false`.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
