//! Where an AMQP broker is and who one is there: `amqp://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST`.
//!
//! User, password and virtual host may have any byte as `%` and two hexadecimal digits. What is left out is as RabbitMQ's clients have it:
//! `guest` with the password `guest`, port 5672 (TLS: 5671), the virtual host `/`.

use std::fmt::{self, Write as _};

use crate::socket::TLS;

/// Schemes, without and with TLS.
pub const SCHEMES: [&str; 2] = ["amqp", "amqps"];
const PORTS: [u16; 2] = [5672, 5671];
const GUEST: &str = "guest";
const DEFAULT_VIRTUAL_HOST: &str = "/";

/// A broker, and who one is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpAddress {
    /// Host and port; [`TLS`] in front where that is spoken.
    pub address: String,
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
    /// Virtual host.
    pub virtual_host: String,
}

impl AmqpAddress {
    /// What stands behind `amqp://` or `amqps://`; `with_port` adds a port to a host that names none.
    pub fn read(
        is_tls: bool,
        rest: &str,
        with_port: fn(&str, u16) -> Result<String, &'static str>,
    ) -> Result<Self, &'static str> {
        if rest.contains('?') {
            return Err("options behind a ? are not known here; a ? of a name is written %3F");
        }
        let (authority, virtual_host) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = who.split_once(':').unwrap_or((who, if who.is_empty() { GUEST } else { "" }));
        let or = |text: String, usual: &str| if text.is_empty() { usual.to_owned() } else { text };
        let front = if is_tls { TLS } else { "" };
        let address = with_port(host, PORTS[usize::from(is_tls)])?;
        Ok(Self {
            address: format!("{front}{address}"),
            user: or(decoded(user)?, GUEST),
            password: decoded(password)?,
            virtual_host: or(decoded(virtual_host)?, DEFAULT_VIRTUAL_HOST),
        })
    }
}

impl fmt::Display for AmqpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.address.strip_prefix(TLS);
        let scheme = SCHEMES[usize::from(plain.is_some())];
        let host = plain.unwrap_or(&self.address);
        write!(f, "{scheme}://")?;
        if (&*self.user, &*self.password) != (GUEST, GUEST) {
            write!(f, "{}:{}@", encoded(&self.user), encoded(&self.password))?;
        }
        f.write_str(host)?;
        if self.virtual_host != DEFAULT_VIRTUAL_HOST {
            write!(f, "/{}", encoded(&self.virtual_host))?;
        }
        Ok(())
    }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "a % has to have two hexadecimal digits behind it";
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(WRONG)?);
        bytes.extend_from_slice(part.as_bytes().get(2..).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_| "what stands there is not UTF-8")
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
