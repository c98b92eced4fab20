//! What the connections of all ports share: the mode, the certificate, and what is told of refused clients.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::Monotonic;
use base::metric::Traffic;
use base::session::Session;
use parking_lot::{Mutex, RwLock};
use rustls::{ServerConfig, ServerConnection};
use settings::TlsMode;
use tls::{Opening, Port, TlsSession};

use super::own::OwnConnections;
use crate::net;

/// Clients of one address are told of at most once in this time.
const TELL_EVERY_MS: u64 = 60_000;

/// Addresses remembered for that; further ones are counted, not told.
const TOLD_MAX: usize = 1024;

const SPOKEN_BUT_DISABLED: &str = "the client speaks TLS, which this port does not: give it a certificate (tls.certificate), or switch it off there: tls.enable=false";

#[derive(Debug)]
pub(crate) struct TlsPort {
    opening: Opening,
    /// Replaced when its files change; one for all ports.
    config: Arc<RwLock<Option<Arc<ServerConfig>>>>,
    pub(super) traffic: Arc<Traffic>,
    own: OwnConnections,
    /// Addresses whose refused clients are not told of before that time.
    quiet_until: Arc<Mutex<HashMap<IpAddr, Monotonic>>>,
}

impl Default for TlsPort {
    fn default() -> Self {
        Self::new(TlsMode::Disabled, None, Arc::default())
    }
}

impl TlsPort {
    pub(crate) fn new(mode: TlsMode, config: Option<Arc<ServerConfig>>, traffic: Arc<Traffic>) -> Self {
        let opening = match mode {
            TlsMode::Disabled => Opening::Plain,
            TlsMode::Permissive => Opening::Either,
            TlsMode::Enforcing => Opening::Tls,
        };
        let (config, own, quiet_until) = (Arc::new(RwLock::new(config)), OwnConnections::default(), Arc::default());
        Self { opening, config, traffic, own, quiet_until }
    }

    /// A port where TLS alone is spoken, with the same certificate.
    pub(crate) fn demanding(&self) -> Self {
        Self {
            opening: Opening::Tls,
            config: self.config.clone(),
            traffic: self.traffic.clone(),
            own: self.own.clone(),
            quiet_until: self.quiet_until.clone(),
        }
    }

    /// Puts TLS around the session of a new connection, unless the process itself opened it.
    pub(crate) fn begin<S: Session>(self: &Arc<Self>, inner: S, peer: SocketAddr, now: Monotonic) -> TlsSession<S> {
        if self.own.contains(net::canonical(peer)) {
            return TlsSession::plain(inner);
        }
        TlsSession::undecided(inner, self.clone(), now)
    }

    /// Connections that the process opens to itself.
    pub(crate) fn own(&self) -> OwnConnections {
        self.own.clone()
    }

    /// New connections have this certificate.
    pub(super) fn replace(&self, config: Arc<ServerConfig>) {
        *self.config.write() = Some(config);
    }

    /// Counts a refused client, and logs it at most once a minute and address.
    pub(crate) fn tell_refused(&self, peer: SocketAddr, reason: &str, now: Monotonic) {
        self.traffic.tls_refused.add(1);
        if self.may_tell(peer.ip(), now) {
            tracing::warn!(%peer, reason, "connection closed: TLS; sluice_tls_refused_total counts");
        }
    }

    fn may_tell(&self, address: IpAddr, now: Monotonic) -> bool {
        let mut quiet_until = self.quiet_until.lock();
        if quiet_until.len() >= TOLD_MAX {
            quiet_until.retain(|_, until| *until > now);
        }
        let is_quiet = quiet_until.get(&address).is_some_and(|until| *until > now);
        let may_tell = !is_quiet && quiet_until.len() < TOLD_MAX;
        if may_tell {
            quiet_until.insert(address, now.plus_ms(TELL_EVERY_MS));
        }
        may_tell
    }
}

impl Port for TlsPort {
    fn opening(&self) -> Opening {
        self.opening
    }

    fn accept(&self) -> Result<ServerConnection, String> {
        let config = self.config.read().clone();
        match config {
            Some(config) if self.opening != Opening::Plain => {
                ServerConnection::new(config).map_err(|error| format!("no TLS here: {error}"))
            }
            _ => Err(SPOKEN_BUT_DISABLED.to_owned()),
        }
    }

    fn note_handshake(&self) {
        self.traffic.tls_handshakes.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_clients_are_told_of_once_a_minute_and_address_and_all_are_counted() {
        let port = TlsPort::default();
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let told = |last, ms| port.may_tell(address(last), Monotonic(ms));
        assert_eq!([told(1, 0), told(1, 59_999), told(2, 59_999), told(1, 60_000)], [true, false, true, true]);
        let many: Vec<_> = (0..2000u16).map(|of| IpAddr::from([10, 1, (of >> 8) as u8, of as u8])).collect();
        let told = many.iter().filter(|address| port.may_tell(**address, Monotonic(60_000))).count();
        assert_eq!(told, TOLD_MAX - 2, "addresses are remembered within a bound");
        assert!(port.may_tell(address(3), Monotonic(120_000)));
        port.tell_refused(SocketAddr::new(address(3), 1), "why", Monotonic(120_001));
        assert_eq!(port.traffic.tls_refused.get(), 1);
    }
}
