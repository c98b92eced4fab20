//! The self-signed certificate of a trial.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair};

use super::certificates::{KeyPairFiles, PemFile};
use crate::error::StartError;

const SETTING: &str = "tls.self_signed";

/// The certificate in `directory`, made for `hosts` if there is none.
pub(super) fn certificate(directory: &Path, hosts: Vec<String>) -> Result<KeyPairFiles, StartError> {
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    if !certificate.exists() || !key.exists() {
        make(directory, &certificate, &key, hosts).map_err(|problem| StartError::Setting {
            name: SETTING,
            problem: format!("{}: {problem}", directory.display()),
        })?;
    }
    tracing::warn!(
        certificate = %certificate.display(),
        "TLS has a self-signed certificate, for a trial: clients cannot verify it unless they trust this file"
    );
    let file = |path: &PathBuf| PemFile::new(SETTING, path);
    Ok(KeyPairFiles { certificate: file(&certificate), key: file(&key) })
}

fn make(directory: &Path, certificate: &Path, key: &Path, hosts: Vec<String>) -> Result<(), String> {
    let pair = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::new(hosts).map_err(|error| error.to_string())?;
    params.distinguished_name.push(DnType::CommonName, "Sluice, self-signed for a trial");
    let signed = params.self_signed(&pair).map_err(|error| error.to_string())?;
    let write = || {
        fs::create_dir_all(directory)?;
        // The key first: without the certificate both are made anew.
        let _ = fs::remove_file(key);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(key)?;
        file.write_all(pair.serialize_pem().as_bytes())?;
        fs::write(certificate, signed.pem())
    };
    write().map_err(|error| format!("the certificate cannot be written: {error}"))
}
