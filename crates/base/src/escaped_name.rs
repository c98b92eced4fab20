//! Names of queues that RocketMQ forbids, in a form that it allows: for folders, records and documents that a Java broker may read.
//!
//! A name that RocketMQ allows stays as it is. Of any other the form is `%ESC%` and the name's bytes, each that RocketMQ forbids, and `%`,
//! as `%` and two hexadecimal digits: `a/b` is `%ESC%a%2Fb`. Where that is longer than RocketMQ allows, its front and, behind `%_`, the
//! first 160 bits of the name's SHA-256 stand for it: whoever makes such a topic keeps the name with its settings.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::limits::TOPIC_NAME_SIZE_MAX;
use crate::name::{TopicName, is_name_character};

const PREFIX: &str = "%ESC%";
/// Between the front of a long name and its hash: no escaped byte, which two digits follow.
const HASH_MARK: &str = "%_";
/// 160 bits of a hash as hexadecimal digits.
const HASH_DIGITS: usize = 40;
const FRONT_SIZE_MAX: usize = TOPIC_NAME_SIZE_MAX - PREFIX.len() - HASH_MARK.len() - HASH_DIGITS;

/// The form of `name` that RocketMQ allows: the name itself, if it does. Two names never have the same.
pub fn escape(name: &str) -> TopicName {
    if is_allowed(name) {
        return TopicName::trusted(name);
    }
    let escaped: Vec<_> = name.bytes().map(escape_byte).collect();
    if PREFIX.len() + escaped.iter().map(|piece| piece.len()).sum::<usize>() <= TOPIC_NAME_SIZE_MAX {
        return TopicName::trusted(&[PREFIX, &escaped.concat()].concat());
    }
    let mut form = PREFIX.to_owned();
    for piece in escaped {
        if form.len() + piece.len() > PREFIX.len() + FRONT_SIZE_MAX {
            break;
        }
        form += &piece;
    }
    form += HASH_MARK;
    let digits: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02X}")).collect();
    form += digits.get(..HASH_DIGITS).unwrap_or_default();
    TopicName::trusted(&form)
}

/// The name of which `form` is the form; `None` if that tells only the front of a long name, or is the form of none.
pub fn unescape(form: &TopicName) -> Option<Cow<'_, str>> {
    let Some(mut rest) = form.as_str().strip_prefix(PREFIX) else { return Some(Cow::Borrowed(form.as_str())) };
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(&first) = rest.as_bytes().first() {
        let taken = if first == b'%' { 3 } else { 1 };
        bytes.push(if first == b'%' { u8::from_str_radix(rest.get(1..taken)?, 16).ok()? } else { first });
        rest = rest.get(taken..)?;
    }
    let name = String::from_utf8(bytes).ok()?;
    (escape(&name) == *form).then_some(Cow::Owned(name))
}

fn is_allowed(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= TOPIC_NAME_SIZE_MAX
        && name.chars().all(is_name_character)
        && !name.starts_with(PREFIX)
}

fn escape_byte(byte: u8) -> String {
    let character = char::from(byte);
    if is_name_character(character) && character != '%' { character.to_string() } else { format!("%{byte:02X}") }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Names of every kind, the same in every run.
    fn names() -> Vec<String> {
        let alphabet = ['a', 'Z', '0', '-', '_', '|', '%', '/', '.', ' ', '\0', '\n', 'é', '日', '🦀'];
        let mut state = 1_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut names: Vec<String> =
            ["", ".", "..", "%", "%ESC%", "%ESC%a", "%ESC%%2F", "%RETRY%g"].map(str::to_owned).into();
        for count in (0..20_000).map(|number| number % 260) {
            let of = 1 + next(alphabet.len());
            names.push((0..count).map(|_| alphabet[next(of)]).collect());
        }
        // Long names that differ in their last character alone.
        names.extend(["x", "y", "/"].map(|last| "/".repeat(254) + last));
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn every_name_has_a_form_of_its_own_that_rocketmq_allows() {
        let mut forms = HashMap::new();
        for name in names() {
            let form = escape(&name);
            assert!(
                TopicName::checked(form.as_str()).is_ok() && TopicName::is_folder(form.as_str()),
                "{name:?}: {form}"
            );
            assert_eq!(forms.insert(form, name.clone()), None, "{name:?}");
        }
    }

    #[test]
    fn a_form_leads_back_to_its_name_unless_that_is_too_long() {
        for name in names() {
            let form = escape(&name);
            let is_whole = is_allowed(&name) || name.bytes().map(|byte| escape_byte(byte).len()).sum::<usize>() <= 122;
            assert_eq!(unescape(&form).as_deref(), is_whole.then_some(name.as_str()), "{form}");
        }
    }

    #[test]
    fn names_that_rocketmq_allows_stay_as_they_are() {
        for (name, form) in [
            ("orders", "orders"),
            ("%RETRY%billing", "%RETRY%billing"),
            ("a/b", "%ESC%a%2Fb"),
            ("..", "%ESC%%2E%2E"),
            (" ", "%ESC%%20"),
            ("", "%ESC%"),
            ("é%", "%ESC%%C3%A9%25"),
        ] {
            assert_eq!(escape(name).as_str(), form);
        }
        for form in ["%ESC%a", "%ESC%%2f", "%ESC%%2", "%ESC%%61", "%ESC%%FF%2F", "%ESC%%_00"] {
            assert_eq!(unescape(&TopicName::trusted(form)), None, "{form}");
        }
    }
}
