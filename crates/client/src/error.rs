//! Why a broker could not be asked, or what it said instead, in words that say what to do about it.

use std::io;

use base::cursor::DecodeError;
use wire::rocketmq::code::{request, response};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The target is not written as one.
    #[error(
        "the target {:?} cannot be used: {problem}; write rocketmq://HOST:PORT for a name server, \
         rocketmq-broker://HOST:PORT for a broker, or amqp://USER:PASSWORD@HOST:PORT/VHOST (with TLS: rocketmqs, \
         rocketmqs-broker, amqps)", without_password(.text)
    )]
    WrongTarget {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A name or number is none that the protocol or the broker allows.
    #[error("the {what} cannot be used: {problem}")]
    Unusable {
        /// What it is of.
        what: &'static str,
        /// What is wrong with it.
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
    /// A method was answered with the end of the channel or connection.
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
    /// There is no such topic.
    #[error(
        "there is no topic {topic:?} at {address}{}; sluice admin topic create {topic} makes it{}",
        did_you_mean(.near), if *.may_create { ", or --create with the first message" } else { "" }
    )]
    UnknownTopic {
        /// What was asked for.
        topic: String,
        /// Who does not know it.
        address: String,
        /// Names like it.
        near: Vec<String>,
        /// Whether a first message may make it.
        may_create: bool,
    },
    /// A topic has no such queue.
    #[error("topic {topic:?} has no queue {queue}: it has {has}")]
    UnknownQueue {
        /// The topic.
        topic: String,
        /// What was asked for.
        queue: String,
        /// Those it has.
        has: String,
    },
    /// There is no such queue or exchange.
    #[error(
        "there is no {noun} {name:?} in virtual host {virtual_host:?} at {address}; sluice admin {noun} list shows those there \
         are, sluice admin {noun} add {name} makes it"
    )]
    NotThere {
        /// `queue` or `exchange`.
        noun: &'static str,
        /// What was asked for.
        name: String,
        /// Where.
        virtual_host: String,
        /// Who does not know it.
        address: String,
    },
    /// A broker was asked what name servers know.
    #[error("{address} is no name server; if a broker is there, the target is rocketmq-broker://{address}")]
    NoNameServer {
        /// Address of the peer.
        address: String,
    },
    /// A message has what its protocol cannot carry.
    #[error("{what} cannot be sent: {problem}")]
    Unsendable {
        /// What of it.
        what: String,
        /// Why not.
        problem: String,
    },
    /// A message went to no queue.
    #[error(
        "it was routed to no queue: nothing bound to exchange {exchange:?} takes routing key {routing_key:?}; \
         sluice admin binding list shows what is bound, sluice admin binding add binds a queue"
    )]
    Unroutable {
        /// To which exchange it went.
        exchange: String,
        /// With which key.
        routing_key: String,
    },
    /// The broker says that a message was not stored.
    #[error("{address} did not store it (basic.nack): its queue may be full, or its disk; its log may say why")]
    Rejected {
        /// Address of the broker.
        address: String,
    },
    /// A request was refused.
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
}

/// An address as it was given, for everybody to see.
fn without_password(text: &str) -> String {
    let begin = text.find("://").map_or(0, |at| at + "://".len());
    let who = text.rfind('@').and_then(|end| text.get(begin..end)).and_then(|who| Some((who.find(':')?, who.len())));
    match who {
        Some((colon, end)) => format!("{}:***{}", &text[..begin + colon], &text[begin + end..]),
        None => text.to_owned(),
    }
}

/// A half sentence that names what is like a name that is not known.
pub(crate) fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_tells_a_password() {
        for (text, shown) in [
            ("amqp://me:SECRET@host:99999", "amqp://me:***@host:99999"),
            ("ampq://me:SEC/RE@T@host/v", "ampq://me:***@host/v"),
            ("me:SECRET@host", "me:***@host"),
            ("amqp://me@host:1", "amqp://me@host:1"),
            ("rocketmq://host:port", "rocketmq://host:port"),
            ("@:", "@:"),
        ] {
            assert_eq!(without_password(text), shown);
            let error = ClientError::WrongTarget { text: text.to_owned(), problem: "x".to_owned() }.to_string();
            assert!(!error.contains("SEC"), "{error}");
        }
    }

    #[test]
    fn errors_name_the_place_and_a_remedy() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error =
            ClientError::Unreachable { role: "name server", address: "h:1".into(), source: refused }.to_string();
        assert!(error.contains("name server at h:1") && error.contains("is it running"), "{error}");
        let error =
            ClientError::Refused { request: 17, address: "h:1".into(), code: 16, remark: "no".into() }.to_string();
        assert_eq!(error, "h:1 refused UPDATE_AND_CREATE_TOPIC with code 16 (NO_PERMISSION): no");
    }
}
