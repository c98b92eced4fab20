//! Certificates, keys and authorities: from PEM files to what rustls wants. Errors name the setting, the file and what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use settings::ClientAuth;
use tls::provider;

use crate::error::StartError;

/// A PEM file and the setting that names it.
#[derive(Clone, Debug)]
pub(crate) struct PemFile {
    pub(crate) setting: &'static str,
    pub(crate) path: PathBuf,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPairFiles {
    pub(crate) certificate: PemFile,
    pub(crate) key: PemFile,
}

/// What the ports are served with.
#[derive(Clone, Debug)]
pub(crate) struct ServerFiles {
    pub(crate) pair: KeyPairFiles,
    pub(crate) client_auth: ClientAuth,
    pub(crate) client_ca: Option<PemFile>,
}

/// What stands in the files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerTexts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl PemFile {
    pub(crate) fn new(setting: &'static str, path: &Path) -> Self {
        Self { setting, path: path.to_owned() }
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, StartError> {
        std::fs::read(&self.path).map_err(|error| self.bad(&format!("cannot be read: {error}; check path and rights")))
    }

    fn bad(&self, problem: &str) -> StartError {
        StartError::Setting { name: self.setting, problem: format!("{} {problem}", self.path.display()) }
    }

    pub(super) fn certificates(&self, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, StartError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(self.bad("has no certificate; expected PEM, which begins with -----BEGIN CERTIFICATE-----")),
            Err(error) => Err(self.bad(&format!("is damaged: {error}; write it anew"))),
        }
    }

    fn private_key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, StartError> {
        PrivateKeyDer::from_pem_slice(text).map_err(|error| {
            if text.windows(9).any(|part| part == b"ENCRYPTED") {
                let path = self.path.display();
                return self.bad(&format!(
                    "has a password; openssl pkey -in {path} -out PLAIN.pem writes it without: name that file"
                ));
            }
            self.bad(&format!(
                "has no private key: {error}; expected PEM, which begins with -----BEGIN PRIVATE KEY-----"
            ))
        })
    }

    pub(super) fn authorities(&self, text: &[u8]) -> Result<Arc<RootCertStore>, StartError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(text)? {
            roots
                .add(certificate)
                .map_err(|error| self.bad(&format!("has a certificate that is no authority's: {error}")))?;
        }
        Ok(Arc::new(roots))
    }
}

impl KeyPairFiles {
    pub(super) fn read(
        &self,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), StartError> {
        Ok((self.certificate.certificates(certificate)?, self.key.private_key(key)?))
    }

    /// A problem of the two together, as rustls tells it.
    pub(super) fn misfit(&self, error: &rustls::Error) -> StartError {
        let certificate = self.certificate.path.display();
        self.key.bad(&format!(
            "and the certificate {certificate} cannot be used together: {error}; name the key of that certificate"
        ))
    }
}

impl ServerFiles {
    pub(crate) fn read(&self) -> Result<ServerTexts, StartError> {
        Ok(ServerTexts {
            certificate: self.pair.certificate.read()?,
            key: self.pair.key.read()?,
            client_ca: self.client_ca.as_ref().map(PemFile::read).transpose()?,
        })
    }

    pub(crate) fn config(&self, texts: &ServerTexts) -> Result<Arc<ServerConfig>, StartError> {
        let (chain, key) = self.pair.read(&texts.certificate, &texts.key)?;
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| self.pair.misfit(&error))?;
        let builder = match (self.client_auth, &self.client_ca, &texts.client_ca) {
            (ClientAuth::Optional | ClientAuth::Require, Some(file), Some(text)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(file.authorities(text)?, provider());
                let verifier = match self.client_auth {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build().map_err(|error| file.bad(&error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        builder.with_single_cert(chain, key).map(Arc::new).map_err(|error| self.pair.misfit(&error))
    }
}
