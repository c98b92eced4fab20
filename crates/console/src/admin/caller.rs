//! Who asks, and whether they may: who shows the token, or where there is none, somebody on this machine.
//!
//! A browser on this machine asks for whoever wrote the page that it shows. What gives such a page away: an `Origin` that is not the
//! console itself, or a `Host` that is no name of this machine, if the page's own name was pointed here. Such a page has no token:
//! no browser sends one by itself. With a token nobody goes without it, also not from this machine: a proxy there asks for others.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, USER_AGENT};
use axum::http::{HeaderName, uri::Authority};

use super::problem::Problem;
use crate::token::Token;

/// Bytes of what a client says of itself that are worth keeping.
const AGENT_SIZE_MAX: usize = 64;

/// The address from which a connection came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    address: SocketAddr,
    /// The program, as it says.
    agent: String,
}

impl fmt::Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.address, self.agent)
    }
}

impl Caller {
    /// Who has sent a request, if they may.
    pub(super) fn of(request: &Request, token: Option<&Token>) -> Result<Self, Problem> {
        let peer = request.extensions().get().map(|Peer(address)| *address);
        let address = peer.ok_or_else(|| Problem::failed("the connection has no address"))?;
        match token {
            Some(token) => check_token(request, token)?,
            None => check_near(request, address)?,
        }
        let agent = text_of(request, USER_AGENT).unwrap_or("no name");
        let agent = agent.chars().filter(|one| !one.is_control()).take(AGENT_SIZE_MAX).collect();
        Ok(Self { address, agent })
    }
}

fn text_of(request: &Request, name: HeaderName) -> Option<&str> {
    request.headers().get(name).map(|value| value.to_str().unwrap_or_default())
}

fn check_token(request: &Request, token: &Token) -> Result<(), Problem> {
    match request.headers().get(AUTHORIZATION) {
        Some(value) if token.is_shown_by(value.as_bytes()) => Ok(()),
        Some(_) => {
            Err(Problem::unauthorized("that is not the token of this broker: see its setting console.token_file"))
        }
        None => Err(Problem::unauthorized(
            "this broker's administration asks for the token in the file of its setting console.token_file: `sluice admin \
             --token-file FILE`, or the header `Authorization: Bearer TOKEN`",
        )),
    }
}

fn check_near(request: &Request, address: SocketAddr) -> Result<(), Problem> {
    if !address.ip().to_canonical().is_loopback() {
        return Err(Problem::forbidden(format!(
            "the admin API answers this machine alone, and you ask from {}: run `sluice admin` where the broker runs, \
                 reach its console port through an SSH tunnel, or give it a token (console.token_file)",
            address.ip()
        )));
    }
    let host = text_of(request, HOST).unwrap_or_default();
    if !is_this_machine(host) {
        return Err(Problem::forbidden(format!(
            "the header Host says [{}]: the admin API is asked by localhost, 127.0.0.1 or [::1]",
            host.escape_debug()
        )));
    }
    if let Some(origin) = text_of(request, ORIGIN).filter(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(Problem::forbidden(format!(
            "a page of [{}] has asked for this: only the console's own pages may",
            origin.escape_debug()
        )));
    }
    Ok(())
}

/// Whether a host, perhaps with a port, can only be this machine.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_plain = !host.contains('@');
    is_plain
        && (name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn ask(peer: &str, headers: &[(&str, &str)]) -> Result<Caller, String> {
        ask_with(None, peer, headers)
    }

    fn ask_with(token: Option<&Token>, peer: &str, headers: &[(&str, &str)]) -> Result<Caller, String> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("a request");
        request.extensions_mut().insert(Peer(peer.parse().expect("an address")));
        Caller::of(&request, token).map_err(|problem| problem.text().to_owned())
    }

    #[test]
    fn only_this_machine_is_answered() {
        let host = [("host", "127.0.0.1:8080")];
        for peer in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(ask(peer, &host).is_ok(), "{peer}");
        }
        for peer in ["10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"] {
            assert!(ask(peer, &host).is_err_and(|text| text.contains("SSH tunnel")), "{peer}");
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_refused() {
        let peer = "127.0.0.1:1";
        for host in ["localhost", "LocalHost:8080", "127.0.0.1", "[::1]:8080", "127.0.0.1:80"] {
            assert!(ask(peer, &[("host", host)]).is_ok(), "{host}");
            let own = format!("http://{host}");
            assert!(ask(peer, &[("host", host), ("origin", &own)]).is_ok(), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.0.0.1:8080", "127.0.0.1.evil:80", "x@localhost", "a b"]
        {
            assert!(ask(peer, &[("host", host)]).is_err(), "{host}");
        }
        assert!(ask(peer, &[]).is_err());
        for origin in ["http://evil.example", "https://localhost", "http://localhost:1", "null", ""] {
            assert!(ask(peer, &[("host", "localhost"), ("origin", origin)]).is_err(), "{origin}");
        }
    }

    #[test]
    fn with_a_token_it_alone_counts() {
        let token = Token::of("0123456789abcdef").expect("a token");
        let ask = |peer, headers: &[(&str, &str)]| ask_with(Some(&token), peer, headers);
        let right = ("authorization", "Bearer 0123456789abcdef");
        for peer in ["127.0.0.1:1", "10.0.0.1:1"] {
            assert!(ask(peer, &[right, ("host", "broker.example"), ("origin", "https://broker.example")]).is_ok());
            assert!(ask(peer, &[("host", "localhost")]).is_err_and(|text| text.contains("--token-file")));
            let wrong = ask(peer, &[("host", "localhost"), ("authorization", "Bearer 0123456789abcdeX")]);
            assert!(wrong.is_err_and(|text| text.contains("not the token")));
        }
    }

    #[test]
    fn what_a_program_says_of_itself_cannot_write_lines() {
        let headers = [("host", "localhost"), ("user-agent", "curl\t/8")];
        assert_eq!(ask("127.0.0.1:9", &headers).expect("answered").to_string(), "127.0.0.1:9 (curl/8)");
    }
}
