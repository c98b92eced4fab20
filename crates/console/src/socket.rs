//! The socket of a connection to the console: it fails once its client has taken nothing of an answer for a while. Until then the answer is
//! in memory, however long it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing.
const TAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A socket.
pub(crate) struct Socket {
    stream: TcpStream,
    limit: Duration,
    /// Ends when there was nothing taken for too long.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(crate) const fn of(stream: TcpStream) -> Self {
        Self { stream, limit: TAKE_TIMEOUT, waits: None }
    }

    /// What came of an attempt to write, if it has not gone on for too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, attempt: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.waits = None;
            return attempt;
        }
        let limit = self.limit;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(limit)));
        waits.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Bytes that are sent: more than the system keeps for two sockets.
    const SIZE: usize = 64 << 20;

    /// Sends to a client that reads so much at a time, and waits before it.
    async fn send_to(at_once: usize, wait: Duration) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut client = TcpStream::connect(listener.local_addr()?).await?;
        let (stream, _) = listener.accept().await?;
        let mut socket = Socket { stream, limit: Duration::from_secs(2), waits: None };
        let reading = tokio::spawn(async move {
            let mut piece = vec![0; at_once];
            loop {
                tokio::time::sleep(wait).await;
                if client.read_exact(&mut piece).await.is_err() {
                    break;
                }
            }
        });
        let sent = socket.write_all(&vec![7; SIZE]).await;
        reading.abort();
        sent
    }

    #[tokio::test]
    async fn who_takes_nothing_fails_and_who_is_slow_does_not() {
        send_to(SIZE / 4, Duration::from_millis(200)).await.expect("all is taken");
        let failure = send_to(SIZE, Duration::from_secs(600)).await.expect_err("nothing is taken");
        assert_eq!(failure.kind(), io::ErrorKind::TimedOut);
    }
}
