//! Listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::error::StartError;

/// Listens on `host:port`; port 0 takes any. `setting` names the port in errors.
pub(crate) fn listen(host: &str, port: u16, backlog: u32, setting: &'static str) -> Result<TcpListener, StartError> {
    let refused = |source| StartError::Listen { address: format!("{host}:{port}"), setting, source };
    let address = (host, port).to_socket_addrs().map_err(refused)?.next();
    let address = address.ok_or_else(|| refused(io::ErrorKind::AddrNotAvailable.into()))?;
    bind(address, backlog).map_err(refused)
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted broker must not wait for old connections to time out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

/// Takes the next connection; errors of single connections are passed over, lack of files waits.
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

/// The address of this machine that others most likely reach it by. No packet is sent.
pub(crate) fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// The address a socket listens on.
pub(crate) fn local(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// An address to connect to, for one that was listened on.
pub(crate) fn reachable(listened: SocketAddr) -> SocketAddr {
    if listened.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], listened.port())) } else { listened }
}

/// An IPv4 peer of an IPv6 socket is an IPv4 peer.
pub(crate) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}
