//! The end of a connection whose peer was told of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{BUFFERS, READ_SIZE, give_back};

/// How long a peer may take to close the connection.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Reads what the peer still sends, for nobody, until it closes the connection. A socket closed with bytes unread resets the connection:
/// the peer would lose what it has not read, the last words too.
pub(super) async fn hear_out(socket: &mut TcpStream) {
    let mut unheard = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let hearing = async {
        socket.shutdown().await?;
        while {
            unheard.clear();
            unheard.reserve(READ_SIZE);
            socket.read_buf(&mut unheard).await? > 0
        } {}
        std::io::Result::Ok(())
    };
    // Whatever ends it, nobody is left to be told.
    let _ = tokio::time::timeout(TIME_MAX, hearing).await;
    give_back(unheard);
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let peer = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connects");
        (listener.accept().await.expect("accepts").0, peer)
    }

    #[tokio::test]
    async fn who_still_sends_hears_the_last_words() {
        let (mut socket, peer) = connected().await;
        let (mut hears, mut speaks) = peer.into_split();
        let sending = tokio::spawn(async move { speaks.write_all(&vec![0; 4 << 20]).await.map(|()| speaks) });
        socket.write_all(b"the end").await.expect("writes");
        socket.readable().await.expect("something comes");
        let ending = tokio::spawn(async move { hear_out(&mut socket).await });
        drop(sending.await.expect("ends").expect("sends all"));
        ending.await.expect("ends");
        let mut heard = Vec::new();
        hears.read_to_end(&mut heard).await.expect("the connection is not reset");
        assert_eq!(heard, b"the end");
    }

    #[tokio::test]
    async fn who_does_not_close_is_not_waited_for_long() {
        let (mut socket, _peer) = connected().await;
        let began = Instant::now();
        hear_out(&mut socket).await;
        assert!((TIME_MAX..10 * TIME_MAX).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
