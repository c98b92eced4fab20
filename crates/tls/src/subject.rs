//! Whose a certificate is.
//!
//! Source: RFC 5280 sections 4.1.2.4 and 4.1.2.6, RFC 4514; names of attributes, and what becomes of several common names, as RabbitMQ has
//! them, so that its users are found by the same texts.

use std::fmt::Write as _;

use base::session::Subject;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::{Decode as _, Encode as _, Tag, Tagged as _};

const COMMON_NAME: &str = "2.5.4.3";

/// Attributes that have a name; others go by their number.
const NAMES: [(&str, &str); 17] = [
    (COMMON_NAME, "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
];

/// Whose that certificate is; `None`: it cannot be read.
pub(crate) fn subject_of(certificate: &[u8]) -> Option<Subject> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let (mut parts, mut common_names) = (Vec::new(), Vec::new());
    for part in certificate.tbs_certificate().subject().iter_rdn() {
        let attributes: Option<Vec<_>> = part.iter().map(shown).collect();
        parts.push(attributes?.join("+"));
        let of_name = part.iter().filter(|attribute| attribute.oid.to_string() == COMMON_NAME);
        common_names.extend(of_name.map(text_of));
    }
    // The last is the most particular.
    parts.reverse();
    // One that cannot be read makes all of them nobody's.
    let common_names: Option<Vec<_>> = common_names.into_iter().collect();
    let common_name = common_names.filter(|names| !names.is_empty()).map(|names| names.join(","));
    Some(Subject { distinguished_name: parts.join(","), common_name })
}

/// `NAME=VALUE`.
fn shown(attribute: &AttributeTypeAndValue) -> Option<String> {
    let number = attribute.oid.to_string();
    let name = NAMES.iter().find(|(known, _)| *known == number).map_or(&*number, |(_, name)| name);
    let value = match text_of(attribute) {
        Some(text) => escaped(&text),
        None => {
            let mut value = "#".to_owned();
            attribute.value.to_der().ok()?.iter().try_for_each(|byte| write!(value, "{byte:02x}")).ok()?;
            value
        }
    };
    Some(format!("{name}={value}"))
}

/// An attribute's text, if it is one.
fn text_of(attribute: &AttributeTypeAndValue) -> Option<String> {
    let bytes = attribute.value.value();
    match attribute.value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            String::from_utf8(bytes.to_owned()).ok()
        }
        Tag::BmpString if bytes.len().is_multiple_of(2) => {
            let words =
                bytes.chunks_exact(2).map(|pair| pair.iter().fold(0, |word, byte| word << 8 | u16::from(*byte)));
            char::decode_utf16(words).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

/// With a backslash before what would be read otherwise.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_end = at == 0 || at + character.len_utf8() == text.len();
        let is_special = match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            '#' => at == 0,
            ' ' => is_end,
            _ => false,
        };
        match character {
            '\0' => out.push_str("\\00"),
            _ => out.extend(is_special.then_some('\\').into_iter().chain([character])),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(name: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.distinguished_name = DistinguishedName::new();
        name.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), value.clone()));
        params.self_signed(&KeyPair::generate().expect("key")).expect("signs").der().to_vec()
    }

    fn text(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    #[test]
    fn names_are_read_as_they_are_written_for_people() {
        let name = [
            (DnType::CountryName, DnValue::PrintableString("DE".try_into().expect("printable"))),
            (DnType::OrganizationName, text("Müller, Söhne + Co")),
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4]), text("#1 ")),
            (DnType::CommonName, DnValue::BmpString("anna".try_into().expect("wide"))),
        ];
        let subject = subject_of(&certificate(&name)).expect("a certificate");
        assert_eq!(subject.common_name.as_deref(), Some("anna"));
        assert_eq!(subject.distinguished_name, "CN=anna,1.3.6.1.4=\\#1\\ ,O=Müller\\, Söhne \\+ Co,C=DE");
        assert_eq!(subject_of(&certificate(&[])), Some(Subject::default()));
    }

    #[test]
    fn what_is_no_text_is_nobodys_common_name() {
        let teletex = DnValue::TeletexString("anna".try_into().expect("teletex"));
        let subject = subject_of(&certificate(&[(DnType::CommonName, teletex)])).expect("a certificate");
        assert_eq!(subject, Subject { distinguished_name: "CN=#1404616e6e61".to_owned(), common_name: None });
    }

    #[test]
    fn whatever_the_bytes_are_they_are_read_or_nobodys() {
        let whole = certificate(&[(DnType::CommonName, text("anna"))]);
        assert!((0..whole.len()).all(|size| subject_of(&whole[..size]).is_none()));
        let mut read = 0;
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                read += u32::from(subject_of(&changed).is_some());
            }
        }
        assert!(read > 100, "a changed signature is not looked at here: {read}");
    }
}
