//! An authority of a test, and the certificates that it signs, as files.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority with a folder of its own.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// One that nobody knows yet; its certificate is `ca.pem`.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("key");
        let folder = tempfile::tempdir().expect("directory");
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).expect("signs").pem()).expect("writes");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate of that common name for 127.0.0.1 to `NAME.pem` and its key to `NAME.key`.
    pub fn sign(&self, name: &str) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("params");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("key");
        let signed = params.signed_by(&key, &self.issuer).expect("signs");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("writes");
        std::fs::write(self.path(&format!("{name}.pem")), signed.pem()).expect("writes");
    }
}
