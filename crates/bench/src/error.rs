//! Why a run could not be made, in words that say what to do about it.

use std::io;

use base::cursor::DecodeError;
use wire::rocketmq::code::{request, response};

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The target is not written as one.
    #[error(
        "the target {text:?} cannot be used: {problem}; write rocketmq://HOST:PORT for a name server, \
         rocketmq-broker://HOST:PORT for a broker, or amqp://USER:PASSWORD@HOST:PORT/VHOST (with TLS: rocketmqs, \
         rocketmqs-broker, amqps)"
    )]
    WrongTarget {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
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
    /// No connection.
    #[error(
        "no connection to the {role} at {address}: {source}; is it running there, and is the port the one it prints when \
         it starts?"
    )]
    Unreachable {
        /// `name server`, `broker`, `master` or `slave`.
        role: &'static str,
        /// Address tried.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The peer closed the connection, or did not answer in time.
    #[error("the connection to {address} was lost: {problem}; its log may say why")]
    Lost {
        /// Address of the peer.
        address: String,
        /// What happened.
        problem: String,
    },
    /// The peer sent bytes that are no frame of the protocol.
    #[error(
        "what {address} answers is not RocketMQ's protocol: {source}; is this the port of a name server or broker?"
    )]
    NotRocketmq {
        /// Address of the peer.
        address: String,
        /// What is wrong with them.
        source: DecodeError,
    },
    /// The peer sent bytes that are not AMQP.
    #[error("what {address} answers is not AMQP 0-9-1: {problem}; is this the port of a broker that speaks it?")]
    NotAmqp {
        /// Address of the peer.
        address: String,
        /// What is wrong with them.
        problem: String,
    },
    /// A method before the run was answered with the end of the channel or connection.
    #[error("{address} refused {asked}: {code} {text}")]
    RefusedMethod {
        /// What was asked.
        asked: &'static str,
        /// Address of the peer.
        address: String,
        /// Reply code.
        code: u16,
        /// The peer's own words.
        text: String,
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
    /// A request before the run was refused.
    #[error(
        "{address} refused {} with code {code} ({}){}{remark}",
        request::name(*.request), response::name(*.code), if .remark.is_empty() { "" } else { ": " }
    )]
    Refused {
        /// Code of the request.
        request: i32,
        /// Address of the peer.
        address: String,
        /// Code of the answer.
        code: i32,
        /// The peer's own words.
        remark: String,
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
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = BenchError::Unreachable { role: "name server", address: "h:1".into(), source: refused }.to_string();
        assert!(error.contains("name server at h:1") && error.contains("is it running"), "{error}");
        let error = BenchError::NoRoute { topic: "t".into(), address: "h:1".into() }.to_string();
        assert!(error.contains("\"t\"") && error.contains("number of queues"), "{error}");
        let error =
            BenchError::Refused { request: 17, address: "h:1".into(), code: 16, remark: "no".into() }.to_string();
        assert_eq!(error, "h:1 refused UPDATE_AND_CREATE_TOPIC with code 16 (NO_PERMISSION): no");
    }
}
