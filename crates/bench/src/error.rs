//! Why a run could not be made, in words that say what to do about it.

use std::io;

use client::ClientError;

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A broker could not be asked, or has refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An option has a value it cannot have.
    #[error("the option {name} cannot be used: {problem}")]
    WrongOption {
        /// Name of the option.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such scenario.
    #[error("there is no scenario {name:?}; the nearest are {} (sluice bench list tells all)", .near.join(", "))]
    UnknownScenario {
        /// What was given.
        name: String,
        /// Names like it.
        near: Vec<String>,
    },
    /// A broker of a comparison could not be started.
    #[error("{name} could not be started: {problem}")]
    NotStarted {
        /// Which.
        name: String,
        /// What happened, and its last words.
        problem: String,
    },
    /// No scenario speaks a broker's protocol.
    #[error(
        "no load can be made for {peer}: sluice bench speaks RocketMQ's protocol and AMQP, and each scenario one of them \
         (sluice bench list tells which); sluice bench peers up {peer} starts one for other tools"
    )]
    NotSpoken {
        /// Which broker.
        peer: &'static str,
    },
    /// A broker of a comparison ended.
    #[error("{name} ended during the run; its log may say why")]
    Died {
        /// Which.
        name: String,
    },
    /// The slaves of a master do not have what it has.
    #[error("{broker} is not followed: {problem}")]
    NotFollowed {
        /// Name of the master.
        broker: String,
        /// What is missing.
        problem: String,
    },
    /// A protocol lacks what was asked for.
    #[error("{protocol} has no {what}{instead}")]
    NotOfProtocol {
        /// Its name.
        protocol: &'static str,
        /// What it lacks.
        what: &'static str,
        /// What it has instead, if anything.
        instead: &'static str,
    },
    /// The name server knows no broker that serves the topic.
    #[error(
        "the name server at {address} knows no broker that serves topic {topic:?}; create it by giving a number of queues, \
         or wait until a broker has registered"
    )]
    NoRoute {
        /// The topic.
        topic: String,
        /// Address of the name server.
        address: String,
    },
    /// A file of the measurement could not be used.
    #[error(
        "a file in {directory} could not be used: {source}; choose a directory on the disk to be measured with --data"
    )]
    Disk {
        /// Directory it is in.
        directory: String,
        /// What the system said.
        source: io::Error,
    },
    /// A chart could not be drawn.
    #[error("the chart {title:?} could not be drawn: {problem}")]
    Chart {
        /// Its title.
        title: String,
        /// What the library said.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place_and_a_remedy() {
        let error = BenchError::NoRoute { topic: "t".into(), address: "h:1".into() }.to_string();
        assert!(error.contains("\"t\"") && error.contains("number of queues"), "{error}");
    }
}
