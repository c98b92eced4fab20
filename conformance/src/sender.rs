//! Sends without an end, whatever befalls the broker, and notes what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::rocketmq::code::response;

use crate::connection::Connection;

/// A broker that is killed is back within seconds.
const PAUSE_WITHOUT_BROKER: Duration = Duration::from_millis(20);

/// An acknowledged message.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Queue and offset.
    pub place: (u32, u64),
    /// When it was about to be sent.
    pub began: Instant,
    /// When it was acknowledged.
    pub acknowledged: Instant,
}

/// A thread that sends.
#[derive(Debug)]
pub struct Sender {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Sent>>>,
}

impl Sender {
    /// Sends to the queues of a topic in turn, with a pause after each.
    pub fn start(address: &str, topic: &str, queues: u32, pause: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, topic, over) = (address.to_owned(), topic.to_owned(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let (mut connection, mut all) = (None, Vec::new());
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                match send(&mut connection, &address, &topic, (number % queues, number)) {
                    Some(sent) => all.push(sent),
                    None => std::thread::sleep(PAUSE_WITHOUT_BROKER),
                }
                std::thread::sleep(pause);
            }
            all
        });
        Self { is_over, thread: Some(thread) }
    }

    /// Ends it; what was acknowledged.
    pub fn stop(mut self) -> Vec<Sent> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("sends")
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sends once, by the connection or by a new one; what was acknowledged.
fn send(connection: &mut Option<Connection>, address: &str, topic: &str, (queue, number): (u32, u32)) -> Option<Sent> {
    let began = Instant::now();
    let mut open = connection.take().or_else(|| Connection::try_open(address))?;
    let answer = open.try_send_message(topic, queue as i32, "", format!("m{number}").as_bytes())?;
    let acknowledged = Instant::now();
    *connection = Some(open);
    (answer.code == response::SUCCESS).then(|| {
        let offset = answer.field("queueOffset").parse().expect("an offset");
        Sent { place: (queue, offset), began, acknowledged }
    })
}
