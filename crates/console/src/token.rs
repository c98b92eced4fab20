//! The secret of those who administer: where there is one, whoever asks the admin API has to show it.
//!
//! It comes with each request, as `Authorization: Bearer ...`, and is never printed.

use std::fmt;

use subtle::ConstantTimeEq as _;

/// Characters that a token has at least.
const SIZE_MIN: usize = 16;

/// What the header's value begins with, before the token.
const SCHEME: &str = "bearer ";

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(..)")
    }
}

impl Token {
    /// The token that a file has, without what is around it; an error says what is wrong with it.
    pub fn of(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < SIZE_MIN {
            return Err(format!("a token has at least {SIZE_MIN} characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has letters, digits and signs of ASCII, and no space".to_owned());
        }
        Ok(Self(text.into()))
    }

    /// Whether the value of a header `Authorization` shows it. Takes as long for a nearly right one as for a wrong one.
    pub(crate) fn is_shown_by(&self, value: &[u8]) -> bool {
        let Some((scheme, shown)) = value.split_at_checked(SCHEME.len()) else { return false };
        scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && bool::from(self.0.as_bytes().ct_eq(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::of("0123456789abcdef\n").expect("a token");
        for right in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert!(token.is_shown_by(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeF",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!token.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn a_token_that_can_be_guessed_or_not_be_sent_is_none() {
        for wrong in ["", "   ", "short", "0123456789 abcdef", "0123456789abcdef\u{e4}"] {
            assert!(Token::of(wrong).is_err(), "{wrong}");
        }
    }
}
