//! Rows about TLS: on the ports of broker and name server, and towards name servers.

use std::path::PathBuf;

use super::row::{same, section};
use crate::choice::{ClientAuth, TlsMode};
use crate::kind::Kind;

section!(Tls, "tls", "TLS on the ports of broker and name server, and towards name servers" {
    mode: Option<TlsMode> = "", Kind::Choice { known: &["disabled", "permissive", "enforcing"], later: &[] },
        "Whether clients speak TLS: disabled never, permissive if they begin with it, enforcing always; when not set, permissive with a \
         certificate, else disabled",
        "as in RocketMQ once there is a certificate; no certificate is made up unless asked for; enforcing closes the port to plain clients",
        same("tls.server.mode");
    certificate: Option<PathBuf> = "", Kind::Path,
        "File of the server's certificate and those between it and its authority, as PEM; read again when it changes",
        "without one there is no TLS",
        same("tls.server.certPath");
    key: Option<PathBuf> = "", Kind::Path,
        "File of the certificate's private key, as PEM without a password",
        "there is one for each certificate",
        same("tls.server.keyPath");
    self_signed: bool = "false", Kind::Boolean,
        "Whether a self-signed certificate is made in the data directory and used, for a trial",
        "clients cannot tell it from an attacker's; `serve --tls` turns it on",
        same("tls.test.mode.enable");
    client_auth: ClientAuth = "none", Kind::Choice { known: &["none", "optional", "require"], later: &[] },
        "Whether TLS clients are asked for a certificate, which is then always verified against client_ca",
        "as in RocketMQ; require, with mode = enforcing, admits only clients with a certificate",
        same("tls.server.need.client.auth");
    client_ca: Option<PathBuf> = "", Kind::Path,
        "File of the authorities that sign clients' certificates, as PEM",
        "needed only where client_auth asks for certificates",
        same("tls.server.trustCertPath");
    outbound: bool = "false", Kind::Boolean,
        "Whether the broker speaks TLS with the name servers of broker.name_servers",
        "as in RocketMQ; turn on if they demand it",
        same("tls.enable"), same("useTLS");
    outbound_verify: bool = "true", Kind::Boolean,
        "Whether a name server's certificate, and the address in it, is verified",
        "RocketMQ does not by default, and so cannot tell a name server from an attacker; turn off only for a trial",
        same("tls.client.authServer");
    outbound_ca: Option<PathBuf> = "", Kind::Path,
        "File of the authorities that sign name servers' certificates, as PEM",
        "needed to verify them",
        same("tls.client.trustCertPath");
    outbound_certificate: Option<PathBuf> = "", Kind::Path,
        "File of the certificate that the broker shows to name servers, as PEM",
        "needed only where name servers ask for one",
        same("tls.client.certPath");
    outbound_key: Option<PathBuf> = "", Kind::Path,
        "File of that certificate's private key, as PEM without a password",
        "there is one for each certificate",
        same("tls.client.keyPath");
});

impl Tls {
    /// The mode, also where it is not set.
    pub fn mode(&self) -> TlsMode {
        let has_certificate = self.certificate.is_some() || self.self_signed;
        self.mode.unwrap_or(if has_certificate { TlsMode::Permissive } else { TlsMode::Disabled })
    }
}
