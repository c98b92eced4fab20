//! Pages over HTTP, asked for as simply as can be.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Status and body of the page `path` at `address`, asked for with some header lines more.
pub fn get(address: &str, path: &str, headers: &[&str]) -> (u16, String) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    // By HTTP 1.0, so that a body comes whole and ends with the connection.
    write!(socket, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n").expect("sends");
    let mut page = String::new();
    socket.read_to_string(&mut page).expect("reads");
    let status = page.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, page.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// A text as part of an address.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}
