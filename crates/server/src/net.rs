//! Listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::error::StartError;

/// Listens on `host:port`; with port 0 the system chooses. `setting` names the port in errors.
pub(crate) fn listen(host: &str, port: u16, backlog: u32, setting: &'static str) -> Result<TcpListener, StartError> {
    let refused = |source| StartError::Listen { address: format!("{host}:{port}"), setting, source };
    let address = (host, port).to_socket_addrs().map_err(refused)?.next();
    let address = address.ok_or_else(|| refused(io::ErrorKind::AddrNotAvailable.into()))?;
    bind(address, backlog).map_err(refused)
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Else a restart fails while connections of the last process are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

/// Accepts the next connection. Ignores errors of single connections; without free file descriptors it waits and tries again.
pub(crate) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let _ = socket.set_nodelay(true);
                return (socket, peer);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; raise the limit of open files if this goes on");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

/// The address that this machine uses towards other networks. Sends no packet.
pub(crate) fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// The address a socket listens on.
pub(crate) fn local(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// An address to connect to for a listening address: loopback for 0.0.0.0 and the like.
pub(crate) fn reachable(listened: SocketAddr) -> SocketAddr {
    if listened.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], listened.port())) } else { listened }
}

/// Turns an IPv4-mapped IPv6 address into the IPv4 address.
pub(crate) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}
