//! The console's thread.
//!
//! **Owns** a runtime of one thread for the console alone. **Always holds**: the network threads may all wait for a disk that hangs, or for a
//! lock of who waits for it, and the console still answers. **On a crash** nothing is lost.

use std::io;
use std::thread;

use console::Sources;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::drive::Stop;
use crate::supervision::Supervisor;

/// Serves the console on `listener` from a thread of its own until `stop` says so, or nobody can any more.
pub(crate) fn start(
    listener: TcpListener,
    opened: oneshot::Receiver<Sources>,
    connections_max: usize,
    mut stop: Stop,
    supervisor: &Supervisor,
) -> io::Result<()> {
    // It belongs to the runtime that waits for its connections.
    let listener = listener.into_std()?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().thread_name("console-jobs").max_blocking_threads(console::JOBS_AT_ONCE_MAX);
    let runtime = builder.build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let (supervisor, span) = (supervisor.clone(), tracing::Span::current());
    thread::Builder::new().name("console".to_owned()).spawn(move || {
        let _marked = span.entered();
        supervisor.watch("console", || {
            let stopped = async move {
                let _ = stop.changed().await;
            };
            runtime.block_on(console::serve(listener, opened, connections_max, stopped));
            // Its jobs may wait for a disk that hangs.
            runtime.shutdown_background();
        });
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::net;

    #[test]
    fn it_answers_while_no_network_thread_can() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let network = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let listener = {
            let _entered = network.enter();
            net::listen("127.0.0.1", 0, 16, "console.port").expect("a port")
        };
        let address = net::local(&listener);
        let (_opener, opened) = oneshot::channel();
        let (_stopper, stop) = watch::channel(false);
        start(listener, opened, 8, stop, &Supervisor::default()).expect("starts");
        // The thread goes on when the test ends, however it does.
        let (held, hangs) = mpsc::channel::<()>();
        let (says, told) = mpsc::channel();
        network.spawn(async move {
            let _ = says.send(());
            let _ = hangs.recv();
        });
        told.recv_timeout(Duration::from_secs(60)).expect("it hangs");
        let mut socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        socket.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sends");
        let mut page = String::new();
        socket.read_to_string(&mut page).expect("answers in time");
        assert!(page.starts_with("HTTP/1.1 503 ") && page.contains(r#""status":"starting""#), "{page}");
        drop(held);
    }
}
