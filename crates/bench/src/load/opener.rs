//! Many connections opened at once, each used for a first send, and all held until the last is open: what a broker sees when its
//! producers come back to it.
//!
//! Of the options, `connections` says how many, and `threads` how many are being opened at any moment: each thread opens its share
//! one after the other. A connection's time is that from the first packet of its connecting to the answer to its send.

use client::ClientError;
use client::socket::Socket;

use crate::error::BenchError;
use crate::load::live::{Beat, Live};
use crate::load::options::SendOptions;
use crate::load::progress::{ProgressSink, Quiet};
use crate::load::report::{SendReport, Setup};
use crate::load::supervisor::{Observed, Supervisor, Watched};
use crate::load::tally::SendTally;
use crate::machine::clock::{Clock, thread_cpu_ns};
use crate::machine::open_files;

/// Connections that are open until this is dropped.
#[derive(Debug, Default)]
pub struct Held(pub(crate) Vec<Socket>);

/// A connection that is open: its first send went well, or was refused with a code, its name, and the broker's words.
pub struct Opened {
    /// The connection.
    pub socket: Socket,
    /// What became of its send.
    pub refusal: Option<(i32, &'static str, String)>,
}

/// Opens the connection with that number, and sends.
pub trait FirstSend: Sync {
    /// Does so.
    fn open(&self, connection: usize) -> Result<Opened, BenchError>;
}

/// Opens the connections; gives what that took, once all are open.
pub fn connect(
    options: SendOptions,
    first_send: &dyn FirstSend,
    setup: impl FnOnce(usize) -> Setup,
    sink: &dyn ProgressSink,
) -> SendReport {
    let (threads, observed, tally, _held) = open_all(&options, first_send, sink);
    SendReport { kind: "connect", ..SendReport::new(options, setup(threads), tally, observed) }
}

/// Opens connections that are known to the broker and say nothing more.
pub fn hold(options: &SendOptions, first_send: &dyn FirstSend) -> Result<Held, BenchError> {
    let (_, _, tally, held) = open_all(options, first_send, &Quiet);
    match tally.faults.into_iter().next() {
        Some(problem) => Err(ClientError::Lost { address: options.run.target.to_string(), problem }.into()),
        None => Ok(held),
    }
}

/// Number of threads, what was seen meanwhile, what became of the sends, and the connections.
fn open_all(
    options: &SendOptions,
    first_send: &dyn FirstSend,
    sink: &dyn ProgressSink,
) -> (usize, Observed, SendTally, Held) {
    open_files::raise_limit();
    let threads = options.run.threads.min(options.run.connections);
    let what = format!("connect to {}", options.run.target);
    sink.begin(&what, None, Some(options.run.connections as u64));
    let (live, clock) = (Live::default(), Clock::start());
    let workers = (0..threads)
        .map(|thread| {
            let share = (thread..options.run.connections).step_by(threads);
            let opener = Opener { first_send, clock, live: &live };
            move || opener.run(share)
        })
        .collect();
    let Watched { parts, observed } = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);
    let (mut tally, mut held) = (SendTally::default(), Held::default());
    for (part, sockets) in parts {
        tally.add(part);
        held.0.extend(sockets);
    }
    (threads, observed, tally, held)
}

/// One thread's work.
struct Opener<'a> {
    first_send: &'a dyn FirstSend,
    clock: Clock,
    live: &'a Live,
}

impl Opener<'_> {
    fn run(self, share: impl Iterator<Item = usize>) -> (SendTally, Vec<Socket>) {
        let (mut tally, mut beat, mut open) = (SendTally::default(), Beat::default(), Vec::new());
        for connection in share {
            if self.live.stop_requested() {
                break;
            }
            let begun_ns = self.clock.now_ns();
            tally.sent += 1;
            match self.first_send.open(connection) {
                Ok(Opened { socket, refusal }) => {
                    let now_ns = self.clock.now_ns();
                    tally.last_ns = now_ns;
                    if let Some((code, name, remark)) = refusal {
                        tally.refusals.record(code, 1, || (name, remark));
                        beat.refused = 1;
                    } else {
                        tally.latency.record(now_ns - begun_ns, 1);
                        beat.latency(now_ns - begun_ns, 1);
                        tally.ok += 1;
                        (beat.messages, beat.measured) = (1, 1);
                    }
                    open.push(socket);
                }
                Err(error) => {
                    tally.unanswered += 1;
                    tally.faults.push(error.to_string());
                }
            }
            self.live.add(&mut beat, open.len());
        }
        self.live.add(&mut beat, 0);
        tally.sent_in_all = tally.sent;
        tally.cpu_ns = thread_cpu_ns();
        (tally, open)
    }
}
