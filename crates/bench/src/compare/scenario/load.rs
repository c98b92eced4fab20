//! What a step does to a broker, and the loads of the usual shapes.

use super::scale::Scale;
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, VisibleOptions};
use crate::load::pop_options::PopOptions;

/// What a step does. Target, topic and process are filled in by who runs it.
#[derive(Clone, Debug)]
pub enum Load {
    /// Sends.
    Send(SendOptions),
    /// Opens connections, with a first send on each: `connections` of them, `threads` at a time.
    Connect(SendOptions),
    /// Reads a backlog that is made once, before the first round, and shared with other steps that want the same.
    Consume {
        /// How it is made.
        fill: SendOptions,
        /// How it is read, from its beginning each time.
        read: ConsumeOptions,
        /// It is read again and again for so many seconds, at least once; the pass with the middle rate is the one that counts.
        seconds: f64,
    },
    /// Pops such a backlog, and acknowledges each message, by a new group each time.
    Pop {
        /// How it is made.
        fill: SendOptions,
        /// How it is popped.
        pop: PopOptions,
        /// As for `Consume`.
        seconds: f64,
    },
    /// Sends and reads at once.
    Visible(VisibleOptions),
}

impl Load {
    /// The same for so many seconds, with nothing of it left out of the measurement. Opening connections takes as long as it takes.
    pub(crate) fn for_seconds(&self, length: f64) -> Self {
        let shortened = |send: &SendOptions| {
            let run = RunOptions { seconds: Some(length), count: None, warm_up_seconds: 0.0, ..send.run.clone() };
            SendOptions { run, ..send.clone() }
        };
        match self {
            Self::Send(send) => Self::Send(shortened(send)),
            Self::Connect(_) => self.clone(),
            Self::Consume { fill, read, .. } => {
                // Not to the end of a long one: what is taken away of it has to be made again.
                let run = RunOptions { seconds: Some(length), warm_up_seconds: 0.0, ..read.run.clone() };
                Self::Consume { fill: fill.clone(), read: ConsumeOptions { run, ..read.clone() }, seconds: length }
            }
            // Its slices end with their time: acknowledging takes a broker far longer than reading.
            Self::Pop { fill, pop, .. } => {
                let run = RunOptions { seconds: Some(length), ..pop.run.clone() };
                let pop = PopOptions { run, ..pop.clone() };
                Self::Pop { fill: fill.clone(), pop, seconds: length }
            }
            Self::Visible(VisibleOptions { send, consume }) => {
                Self::Visible(VisibleOptions { send: shortened(send), consume: consume.clone() })
            }
        }
    }

    /// Messages a second its sends are paced to; 0 if they are not.
    pub(crate) const fn pace(&self) -> u64 {
        match self {
            Self::Send(send) | Self::Visible(VisibleOptions { send, .. }) => send.pace,
            Self::Connect(_) | Self::Consume { .. } | Self::Pop { .. } => 0,
        }
    }

    /// The same, with sends paced to so many messages a second.
    pub(crate) fn paced(mut self, per_second: u64) -> Self {
        if let Self::Send(send) | Self::Visible(VisibleOptions { send, .. }) = &mut self {
            send.pace = per_second;
        }
        self
    }

    /// How the backlog is made that it reads.
    pub(crate) const fn backlog(&self) -> Option<&SendOptions> {
        match self {
            Self::Consume { fill, .. } | Self::Pop { fill, .. } => Some(fill),
            Self::Send(_) | Self::Connect(_) | Self::Visible(_) => None,
        }
    }
}

/// Sends as the official client does that most field notes used: every thread of the program on one connection, each with one
/// send in flight.
pub(super) fn threads_of_one_client(scale: Scale, threads: usize, message_size: usize) -> SendOptions {
    let mut send = SendOptions { window: threads, ..sends(scale, message_size) };
    send.run.connections = 1;
    send
}

/// Sends of the usual shape.
pub(super) fn sends(scale: Scale, message_size: usize) -> SendOptions {
    let (seconds, warm_up_seconds) = (Some(scale.seconds()), scale.warm_up_seconds());
    let run = RunOptions { queues: Some(4), seconds, warm_up_seconds, ..RunOptions::default() };
    SendOptions { run, message_sizes: vec![message_size], ..SendOptions::default() }
}

/// Makes a backlog as fast as it goes.
pub(super) fn fill(message_size: usize, queues: u32, count: u64) -> SendOptions {
    let run = RunOptions { queues: Some(queues), seconds: None, count: Some(count), ..RunOptions::default() };
    SendOptions { run, message_sizes: vec![message_size], ..SendOptions::default() }
}

/// Pops what is there to its end, with `consumers` consumers on a connection each.
pub(super) fn pops(consumers: usize) -> PopOptions {
    let run = RunOptions { connections: consumers, seconds: None, ..RunOptions::default() };
    PopOptions { run, until_empty: true, ..PopOptions::default() }
}

/// Reads what is there to its end, on `connections` connections with a thread each.
pub(super) fn reads(connections: usize) -> ConsumeOptions {
    let run = RunOptions { connections, threads: connections, seconds: None, ..RunOptions::default() };
    ConsumeOptions { run, until_empty: true, ..ConsumeOptions::default() }
}
