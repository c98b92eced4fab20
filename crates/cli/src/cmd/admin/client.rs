//! Asks the admin API.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Timeout;
use ureq::http::{Method, Request, Uri};

use super::wait::patiently;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take until somebody takes the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer: a piece of a list.
const ANSWER_SIZE_MAX: u64 = 64 * 1024 * 1024;

/// Why something was not done, or not told.
#[derive(Debug)]
pub(super) enum Failure {
    /// The broker said no.
    Refused { why: String, nearest: Vec<String> },
    /// The command line is wrong, or what it has read.
    Wrong(String),
    /// Nobody could be asked.
    Unasked(String),
    /// It was done, and cannot be told.
    Untold(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { why, nearest } => {
                out.write_str(why)?;
                if nearest.is_empty() { Ok(()) } else { write!(out, "; did you mean {}?", nearest.join(" or ")) }
            }
            Self::Wrong(why) | Self::Unasked(why) | Self::Untold(why) => out.write_str(why),
        }
    }
}

/// The admin API of one broker.
pub(super) struct Client {
    agent: ureq::Agent,
    console: String,
    /// What is shown with each request.
    token: Option<String>,
}

impl Client {
    /// Of the broker whose console is there.
    pub(super) fn of(console: &str, token: Option<String>) -> Result<Self, Failure> {
        Self::within(TIMEOUT, console, token)
    }

    fn within(timeout: Duration, console: &str, token: Option<String>) -> Result<Self, Failure> {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // What it is asked is for this machine's broker alone.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("sluice-admin/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { agent: agent.new_agent(), console: address(console)?, token })
    }

    /// All of a list.
    pub(super) fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let mut piece = self.ask(Method::GET, &format!("{path}?from={from}"), None)?;
            if let Some(Value::Array(items)) = piece.get_mut("items").map(Value::take) {
                all.extend(items);
            }
            match piece.get("next").and_then(Value::as_u64) {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }

    /// One thing.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, None)
    }

    /// Has something made.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::POST, path, Some(body))
    }

    /// Has something be so.
    pub(super) fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::PUT, path, Some(body))
    }

    /// Has some of it be otherwise.
    pub(super) fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::PATCH, path, Some(body))
    }

    /// Has something removed.
    pub(super) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::DELETE, path, None)
    }

    /// Whether clients are to be sent to the process; if not, it refuses with the reason.
    pub(super) fn ready(&self) -> Result<Value, Failure> {
        self.ask_page(Method::GET, "/ready", None)
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        // Strokes within names are encoded.
        if path.split('?').next().is_some_and(|names| names.split('/').skip(1).any(str::is_empty)) {
            return Err(Failure::Wrong("a name is empty: nothing at a broker is called that".to_owned()));
        }
        self.ask_page(method, &format!("/admin/v1{path}"), body)
    }

    fn ask_page(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let console = &self.console;
        let unasked = |why: &dyn fmt::Display| {
            Failure::Unasked(format!(
                "no answer from a console at {console}: {why}; name the one of the broker's ready line by --console"
            ))
        };
        let failed = |error: ureq::Error| match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => unasked(&"it is not reached in time"),
            ureq::Error::Timeout(_) => Failure::Unasked(format!(
                "the console at {console} took the request and did not answer in time; whether it does what was asked is not known: \
                 the broker hangs or has much to do, see its log"
            )),
            error => unasked(&error),
        };
        let mut request = Request::builder().method(method).uri(format!("http://{console}{path}"));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (status, text) =
            patiently(&format!("the console at {console} has not answered yet"), || -> Result<_, Failure> {
                let answer = match body {
                    Some(body) => {
                        let request = request.header("content-type", "application/json").body(body.to_string());
                        self.agent.run(request.map_err(|error| unasked(&error))?)
                    }
                    None => self.agent.run(request.body(()).map_err(|error| unasked(&error))?),
                };
                let mut answer = answer.map_err(failed)?;
                let text = answer.body_mut().with_config().limit(ANSWER_SIZE_MAX).read_to_string();
                Ok((answer.status(), text.map_err(failed)?))
            })?;
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() && !told.is_null() {
            return Ok(told);
        }
        let Some(why) = reason(&told) else {
            return Err(unasked(&format_args!("something else answers there, with status {status}")));
        };
        let nearest = told.get("nearest").and_then(Value::as_array).into_iter().flatten();
        let nearest = nearest.filter_map(Value::as_str).map(str::to_owned).collect();
        Err(Failure::Refused { why, nearest })
    }
}

/// Where a console is, whatever an address of the web has around that.
fn address(console: &str) -> Result<String, Failure> {
    let (scheme, address) = console.split_once("://").unwrap_or(("http", console));
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Failure::Wrong(format!(
            "--console {console}: consoles are asked by plain HTTP; name one as HOST:PORT, from another machine the near end of an SSH tunnel"
        )));
    }
    let address = address.trim_end_matches('/');
    match format!("http://{address}").parse::<Uri>() {
        Ok(_) => Ok(address.to_owned()),
        Err(error) => Err(Failure::Wrong(format!("--console '{console}' is not of the form HOST:PORT: {error}"))),
    }
}

/// Why something was refused. While the console starts, whatever is asked is answered with the reason; of several brokers of which none is
/// ready each has its own.
fn reason(told: &Value) -> Option<String> {
    let of = |told: &Value| ["error", "reason"].iter().find_map(|name| told.get(name)?.as_str()).map(str::to_owned);
    let of_each = || {
        let brokers = told.get("brokers")?.as_object()?.iter();
        let lines: Vec<_> = brokers.filter_map(|(name, broker)| Some(format!("{name}: {}", of(broker)?))).collect();
        Some(lines.join("\n")).filter(|lines| !lines.is_empty())
    };
    of(told).or_else(of_each)
}

/// A path of these parts, whatever characters they have.
pub(super) fn path<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().fold(String::new(), |mut path, part| {
        path.push('/');
        path.push_str(&encoded(part));
        path
    })
}

/// What follows the path: names and values.
pub(super) fn query(pairs: &[(&str, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    format!("?{}", pairs.join("&"))
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// That something is so, if it is.
pub(super) fn flag(name: &'static str, is_so: bool) -> Option<(&'static str, String)> {
    is_so.then(|| (name, json!(true).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_has_its_place_in_an_address() {
        assert_eq!(path(["vhosts", "/", "queues", "a b?&ü.."]), "/vhosts/%2F/queues/a%20b%3F%26%C3%BC%2E%2E");
        assert_eq!(query(&[("key", "a&b=#".to_owned()), ("x", String::new())]), "?key=a%26b%3D%23&x=");
    }

    #[test]
    fn what_nobody_answers_is_told_with_the_remedy() {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
        let client = Client::of(&format!("HTTP://127.0.0.1:{port}/"), None).expect("an address");
        let failure = client.list("/queues").expect_err("nobody is there");
        assert!(matches!(failure, Failure::Unasked(_)));
        assert!(failure.to_string().contains("--console"), "{failure}");
    }

    #[test]
    fn who_does_not_answer_is_told_from_who_is_not_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let console = listener.local_addr().expect("its address").to_string();
        let client = Client::within(Duration::from_millis(200), &console, None).expect("an address");
        let failure = client.get("/brokers").expect_err("nobody answers").to_string();
        assert!(failure.contains(&console) && failure.contains("did not answer in time"), "{failure}");
    }

    #[test]
    fn what_cannot_be_an_address_is_a_matter_of_the_command_line() {
        for (console, remedy) in [("https://broker-a:8080", "HOST:PORT"), ("", "HOST:PORT"), ("a b:80", "HOST:PORT")] {
            let failure = Client::of(console, None).err().expect("refused");
            assert!(matches!(&failure, Failure::Wrong(text) if text.contains(remedy)), "{console}: {failure}");
        }
    }
}
