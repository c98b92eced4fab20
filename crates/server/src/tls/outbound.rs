//! Connections that a broker opens to name servers, with TLS if it is set.

use std::path::PathBuf;
use std::sync::Arc;

use base::session::Session;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use settings::Tls;
use tls::{AnyCertificate, TlsSession, provider};
use tokio::net::TcpStream;

use super::certificates::{KeyPairFiles, PemFile};
use super::own::{OwnConnection, OwnConnections};
use crate::clock;
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

/// An open connection and its session, behind TLS or not.
pub(crate) struct Connected<S> {
    pub(crate) socket: TcpStream,
    pub(crate) session: TlsSession<S>,
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
    /// Opens a connection to `address`, `host:port`, for `session`.
    pub(crate) async fn connect<S: Session>(&self, address: &str, session: S) -> Result<Connected<S>, String> {
        let (socket, own) = match self {
            Self::Own(all) => {
                let (socket, own) = all.connect(address).await.map_err(|error| error.to_string())?;
                (socket, Some(own))
            }
            _ => (TcpStream::connect(address).await.map_err(|error| error.to_string())?, None),
        };
        let _ = socket.set_nodelay(true);
        let session = match self {
            Self::Tls(files) => TlsSession::outbound(session, connection(files, address).await?, clock::monotonic()),
            _ => TlsSession::plain(session),
        };
        Ok(Connected { socket, session, _own: own })
    }
}

/// The TLS of a connection to `address`, with the files of now.
async fn connection(files: &Arc<ClientFiles>, address: &str) -> Result<ClientConnection, String> {
    let files = files.clone();
    let config = tokio::task::spawn_blocking(move || files.config()).await.map_err(|error| error.to_string())?;
    let config = config.map_err(|error| error.to_string())?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("[{host}]: {error}"))?;
    ClientConnection::new(config, name).map_err(|error| error.to_string())
}

impl ClientFiles {
    fn config(&self) -> Result<Arc<ClientConfig>, StartError> {
        let bad = |error: rustls::Error| StartError::Setting { name: "tls.outbound", problem: error.to_string() };
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(bad)?;
        let builder = match &self.authorities {
            Some(file) => builder.with_root_certificates(file.authorities(&file.read()?)?),
            None => builder.dangerous().with_custom_certificate_verifier(Arc::<AnyCertificate>::default()),
        };
        let Some(pair) = &self.pair else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let (chain, key) = pair.read(&pair.certificate.read()?, &pair.key.read()?)?;
        builder.with_client_auth_cert(chain, key).map(Arc::new).map_err(|error| pair.misfit(&error))
    }
}
