//! TLS on the ports of broker and name server, and towards name servers: settings, certificates and what is told of it. What a
//! connection says is the crate `tls`.

mod certificates;
mod outbound;
mod own;
mod port;
mod reload;
mod self_signed;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use base::metric::Traffic;
use certificates::{KeyPairFiles, PemFile, ServerFiles, ServerTexts};
use settings::{ClientAuth, Settings, TlsMode};

use crate::error::StartError;

pub(crate) use outbound::{Connector, connector};
pub(crate) use port::TlsPort;
pub(crate) use reload::keep_current;

/// The TLS of all ports, and the files to be watched for it.
pub(crate) struct Ports {
    pub(crate) port: Arc<TlsPort>,
    pub(crate) watched: Option<(ServerFiles, ServerTexts)>,
}

/// Reads, or makes, what these settings want. Blocks.
pub(crate) fn open(settings: &Settings, traffic: Arc<Traffic>) -> Result<Ports, StartError> {
    let tls = &settings.tls;
    let mode = tls.mode();
    if mode == TlsMode::Disabled {
        return Ok(Ports { port: Arc::new(TlsPort::new(mode, None, traffic)), watched: None });
    }
    let file = |setting, path: &Option<PathBuf>| path.as_ref().map(|path| PemFile::new(setting, path));
    let given = file("tls.certificate", &tls.certificate).zip(file("tls.key", &tls.key));
    let pair = match given {
        Some((certificate, key)) => KeyPairFiles { certificate, key },
        None => self_signed::certificate(&settings.tls_directory(), names(settings))?,
    };
    let client_ca = file("tls.client_ca", &tls.client_ca).filter(|_| tls.client_auth != ClientAuth::None);
    let files = ServerFiles { pair, client_auth: tls.client_auth, client_ca };
    let texts = files.read()?;
    let port = TlsPort::new(mode, Some(files.config(&texts)?), traffic);
    Ok(Ports { port: Arc::new(port), watched: Some((files, texts)) })
}

/// What clients may call this server.
fn names(settings: &Settings) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let told = settings.advertised_host().map(str::to_owned).or_else(crate::net::own_address);
    names.extend(told.filter(|host| host != "localhost" && host != "127.0.0.1" && host != "::1"));
    names
}
