//! Connections that the process opens to its own name server: they leave no machine and need no TLS, whatever other clients need.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::net;

/// The addresses that such connections come from. As long as one is open, no other connection can come from there.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnConnections(Arc<Mutex<HashSet<SocketAddr>>>);

/// One of them; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct OwnConnection {
    all: OwnConnections,
    from: SocketAddr,
}

impl OwnConnections {
    pub(super) fn contains(&self, peer: SocketAddr) -> bool {
        self.0.lock().contains(&peer)
    }

    pub(super) async fn connect(&self, address: &str) -> io::Result<(TcpStream, OwnConnection)> {
        let address = lookup_host(address).await?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Bound first, so that the address is known before the connection is accepted.
        socket.bind(SocketAddr::new(address.ip(), 0))?;
        let from = net::canonical(socket.local_addr()?);
        self.0.lock().insert(from);
        let own = OwnConnection { all: self.clone(), from };
        Ok((socket.connect(address).await?, own))
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.from);
    }
}
