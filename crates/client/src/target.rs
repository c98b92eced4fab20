//! Where messages go or come from: a name server that knows the brokers, or one broker. It says which protocol is spoken.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::amqp::address::{self, AmqpAddress};
use crate::error::ClientError;
use crate::socket::TLS;

const NAME_SERVER_SCHEME: &str = "rocketmq";
const BROKER_SCHEME: &str = "rocketmq-broker";
const NAME_SERVER_TLS_SCHEME: &str = "rocketmqs";
const BROKER_TLS_SCHEME: &str = "rocketmqs-broker";
const NAME_SERVER_PORT: u16 = 9876;
const BROKER_PORT: u16 = 10911;

/// `rocketmq://HOST:PORT[;HOST:PORT]` (name servers) or `rocketmq-broker://HOST:PORT` (one broker, no route asked); with TLS
/// `rocketmqs://` and `rocketmqs-broker://`. Addresses have [`TLS`] in front then. AMQP brokers are `amqp://` or `amqps://`, see
/// [`AmqpAddress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Name servers, asked in order until one answers.
    NameServer(Vec<String>),
    /// A broker.
    Broker(String),
    /// A broker that speaks AMQP.
    Amqp(AmqpAddress),
}

impl Default for Target {
    fn default() -> Self {
        Self::NameServer(vec![format!("127.0.0.1:{NAME_SERVER_PORT}")])
    }
}

impl FromStr for Target {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = |problem: &str| ClientError::WrongTarget { text: text.to_owned(), problem: problem.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("there is no KIND:// in front"))?;
        if let Some(tls) = address::SCHEMES.iter().position(|known| *known == scheme) {
            return AmqpAddress::read(tls == 1, rest, with_port).map(Self::Amqp).map_err(wrong);
        }
        let rest = rest.trim_end_matches('/');
        let front = if [NAME_SERVER_TLS_SCHEME, BROKER_TLS_SCHEME].contains(&scheme) { TLS } else { "" };
        let address = |text, port| with_port(text, port).map(|address| format!("{front}{address}"));
        match scheme {
            NAME_SERVER_SCHEME | NAME_SERVER_TLS_SCHEME => {
                let addresses: Result<Vec<_>, _> =
                    rest.split([';', ',']).map(|text| address(text, NAME_SERVER_PORT)).collect();
                addresses.map(Self::NameServer).map_err(wrong)
            }
            BROKER_SCHEME | BROKER_TLS_SCHEME => address(rest, BROKER_PORT).map(Self::Broker).map_err(wrong),
            other => Err(wrong(&format!("the kind {other:?} is not known"))),
        }
    }
}

/// `address` with the usual port if it names none.
fn with_port(address: &str, usual: u16) -> Result<String, &'static str> {
    let address = address.trim();
    if address.is_empty() {
        return Err("the host is missing");
    }
    let bracketed = address.starts_with('[');
    match address.rsplit_once(':') {
        Some((_, port)) if !(bracketed && port.ends_with(']')) => {
            port.parse::<u16>().map(|_| address.to_owned()).map_err(|_| "the port is not a number up to 65535")
        }
        _ => Ok(format!("{address}:{usual}")),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (addresses, plain, tls) = match self {
            Self::NameServer(addresses) => (&**addresses, NAME_SERVER_SCHEME, NAME_SERVER_TLS_SCHEME),
            Self::Broker(address) => (std::slice::from_ref(address), BROKER_SCHEME, BROKER_TLS_SCHEME),
            Self::Amqp(address) => return address.fmt(f),
        };
        let speaks_tls = addresses.iter().any(|address| address.starts_with(TLS));
        let shown: Vec<_> = addresses.iter().map(|address| address.strip_prefix(TLS).unwrap_or(address)).collect();
        write!(f, "{}://{}", if speaks_tls { tls } else { plain }, shown.join(";"))
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_their_usual_ports() {
        for (text, wanted) in [
            ("rocketmq://127.0.0.1:9876", "rocketmq://127.0.0.1:9876"),
            ("rocketmq://a;b:1/", "rocketmq://a:9876;b:1"),
            ("rocketmq-broker://broker", "rocketmq-broker://broker:10911"),
            ("rocketmq-broker://[::1]:28911", "rocketmq-broker://[::1]:28911"),
            ("rocketmq-broker://[::1]", "rocketmq-broker://[::1]:10911"),
            ("rocketmqs://a;b:1", "rocketmqs://a:9876;b:1"),
            ("rocketmqs-broker://broker", "rocketmqs-broker://broker:10911"),
            ("amqp://broker", "amqp://broker:5672"),
            ("amqps://[::1]/", "amqps://[::1]:5671"),
            ("amqp://guest:guest@broker:1/%2f", "amqp://broker:1"),
            ("amqp://me:p%40ss%3A@broker/a%2Fb", "amqp://me:p%40ss%3A@broker:5672/a%2Fb"),
            ("amqp://me@broker", "amqp://me:@broker:5672"),
        ] {
            let target = text.parse::<Target>().expect("target");
            assert_eq!(target.to_string(), wanted);
            assert_eq!(wanted.parse::<Target>().expect("target"), target);
        }
    }

    #[test]
    fn a_wrong_target_says_what_is_right() {
        for text in [
            "127.0.0.1:9876",
            "kafka://x:9092",
            "rocketmq://",
            "rocketmq://a:port",
            "rocketmq-broker://a:99999",
            "amqp://",
            "amqp://user@",
            "amqp://host/%zz",
            "amqp://host/%f",
            "amqp://host/v?heartbeat=5",
        ] {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(
                error.contains(text) && error.contains("rocketmq://HOST:PORT") && error.contains("amqp://"),
                "{error}"
            );
        }
    }
}
