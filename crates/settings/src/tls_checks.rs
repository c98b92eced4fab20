//! Rules between the settings of TLS: what would not work, and what would not protect.

use super::choice::{ClientAuth, TlsMode};
use super::entry::Place;
use super::error::Error;
use super::gathered::Gathered;
use super::notice::{Level, Notice};
use super::table::Tls;

pub(super) fn check(tls: &Tls, gathered: &mut Gathered) {
    check_certificate(tls, gathered);
    check_clients(tls, gathered);
    check_outbound(tls, gathered);
}

/// A port where TLS alone is spoken needs it.
pub(super) fn check_port(tls: &Tls, (name, port): (&'static str, Option<u16>), gathered: &mut Gathered) {
    let Some(port) = port.filter(|_| tls.mode() == TlsMode::Disabled) else { return };
    let expected = match tls.mode {
        Some(_) => "no such port while tls.mode is disabled: leave it unset, or set tls.mode to permissive",
        None => {
            "no such port without TLS: name a certificate (tls.certificate with tls.key; tls.self_signed for a trial)"
        }
    };
    gathered.errors.push(Error::Invalid {
        place: gathered.place(name),
        key: name.to_owned(),
        found: port.to_string(),
        expected: expected.to_owned(),
    });
}

fn check_certificate(tls: &Tls, gathered: &mut Gathered) {
    if tls.certificate.is_some() && tls.self_signed {
        let (first, second) = ("tls.certificate", "tls.self_signed");
        let places = Box::new([gathered.place(first), gathered.place(second)]);
        gathered.errors.push(Error::NotBoth { first, second, places });
    }
    check_pair(("tls.certificate", tls.certificate.is_some()), ("tls.key", tls.key.is_some()), gathered);
    if tls.mode() != TlsMode::Disabled && tls.certificate.is_none() && tls.key.is_none() && !tls.self_signed {
        missing(
            gathered,
            "tls.certificate",
            "the certificate's file, and its key in tls.key, for TLS (or `tls.self_signed` for a trial)",
        );
    }
}

fn check_clients(tls: &Tls, gathered: &mut Gathered) {
    if tls.mode() == TlsMode::Disabled || tls.client_auth == ClientAuth::None {
        return;
    }
    if tls.client_ca.is_none() {
        missing(
            gathered,
            "tls.client_ca",
            "the authorities that sign clients' certificates, as tls.client_auth asks for them",
        );
    }
    if tls.client_auth == ClientAuth::Require && tls.mode() == TlsMode::Permissive {
        let key = "tls.client_auth";
        let text = "demands certificates of TLS clients, but plain clients are admitted without; tls.mode = enforcing admits none".to_owned();
        let place = gathered.place(key);
        gathered.notices.push(Notice { level: Level::Warning, key: key.to_owned(), place, text });
    }
}

fn check_outbound(tls: &Tls, gathered: &mut Gathered) {
    let certificate = ("tls.outbound_certificate", tls.outbound_certificate.is_some());
    check_pair(certificate, ("tls.outbound_key", tls.outbound_key.is_some()), gathered);
    if tls.outbound && tls.outbound_verify && tls.outbound_ca.is_none() {
        let expected =
            "the authorities that sign name servers' certificates (or `tls.outbound_verify` = false for a trial)";
        missing(gathered, "tls.outbound_ca", expected);
    }
}

fn check_pair(first: (&'static str, bool), second: (&'static str, bool), gathered: &mut Gathered) {
    for ((one, is_set), (other, other_is_set)) in [(first, second), (second, first)] {
        if is_set && !other_is_set {
            missing(gathered, other, &format!("a file, as {one} is set"));
        }
    }
}

fn missing(gathered: &mut Gathered, key: &'static str, expected: &str) {
    let (key, found, expected) = (key.to_owned(), "not set".to_owned(), expected.to_owned());
    gathered.errors.push(Error::Invalid { place: Place::Default, key, found, expected });
}
