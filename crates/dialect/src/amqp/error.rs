//! Reply codes: what a client is told that has asked for what cannot be.
//!
//! Source: AMQP 0-9-1 specification, constants of class soft-error and hard-error; texts as RabbitMQ has them.

use base::Refusal;
use broker::ModelError;
use wire::amqp::method::{MethodError, MethodId};

/// Reply codes.
pub(super) mod code {
    pub(in crate::amqp) const NO_ROUTE: u16 = 312;
    pub(in crate::amqp) const CONNECTION_FORCED: u16 = 320;
    pub(in crate::amqp) const ACCESS_REFUSED: u16 = 403;
    pub(in crate::amqp) const NOT_FOUND: u16 = 404;
    pub(in crate::amqp) const RESOURCE_LOCKED: u16 = 405;
    pub(in crate::amqp) const PRECONDITION_FAILED: u16 = 406;
    pub(in crate::amqp) const FRAME_ERROR: u16 = 501;
    pub(in crate::amqp) const SYNTAX_ERROR: u16 = 502;
    pub(in crate::amqp) const COMMAND_INVALID: u16 = 503;
    pub(in crate::amqp) const CHANNEL_ERROR: u16 = 504;
    pub(in crate::amqp) const UNEXPECTED_FRAME: u16 = 505;
    pub(in crate::amqp) const RESOURCE_ERROR: u16 = 506;
    pub(in crate::amqp) const NOT_ALLOWED: u16 = 530;
    pub(in crate::amqp) const NOT_IMPLEMENTED: u16 = 540;
    pub(in crate::amqp) const INTERNAL_ERROR: u16 = 541;
}

const NAMES: [(u16, &str); 16] = [
    (311, "CONTENT_TOO_LARGE"),
    (code::NO_ROUTE, "NO_ROUTE"),
    (code::CONNECTION_FORCED, "CONNECTION_FORCED"),
    (code::ACCESS_REFUSED, "ACCESS_REFUSED"),
    (code::NOT_FOUND, "NOT_FOUND"),
    (code::RESOURCE_LOCKED, "RESOURCE_LOCKED"),
    (code::PRECONDITION_FAILED, "PRECONDITION_FAILED"),
    (code::FRAME_ERROR, "FRAME_ERROR"),
    (code::SYNTAX_ERROR, "SYNTAX_ERROR"),
    (code::COMMAND_INVALID, "COMMAND_INVALID"),
    (code::CHANNEL_ERROR, "CHANNEL_ERROR"),
    (code::UNEXPECTED_FRAME, "UNEXPECTED_FRAME"),
    (code::RESOURCE_ERROR, "RESOURCE_ERROR"),
    (code::NOT_ALLOWED, "NOT_ALLOWED"),
    (code::NOT_IMPLEMENTED, "NOT_IMPLEMENTED"),
    (code::INTERNAL_ERROR, "INTERNAL_ERROR"),
];

/// Bytes of a reply text.
const TEXT_SIZE_MAX: usize = 255;

/// Why a method was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: u16,
    /// Without the code's name in front.
    text: String,
    /// Whether the method has no number to be named by.
    pub(super) method: Option<MethodId>,
}

impl Fault {
    pub(super) fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), method: None }
    }

    pub(super) fn not_allowed(text: impl Into<String>) -> Self {
        Self::new(code::NOT_ALLOWED, text)
    }

    pub(super) fn not_implemented(text: impl Into<String>) -> Self {
        Self::new(code::NOT_IMPLEMENTED, text)
    }

    pub(super) fn precondition(text: impl Into<String>) -> Self {
        Self::new(code::PRECONDITION_FAILED, text)
    }

    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::new(code::ACCESS_REFUSED, text)
    }

    pub(super) const fn by(mut self, method: MethodId) -> Self {
        self.method = Some(method);
        self
    }

    /// Whether the whole connection has to end, and not the channel alone.
    pub(super) const fn is_hard(&self) -> bool {
        !matches!(self.code, 311..=313 | 403..=406)
    }

    /// Why, without the code's name.
    pub(super) fn why(self) -> String {
        self.text
    }

    /// What the client reads.
    pub(super) fn reply_text(&self) -> String {
        let name = NAMES.iter().find(|(code, _)| *code == self.code).map_or("ERROR", |(_, name)| name);
        let mut text = format!("{name} - {}", self.text);
        while text.len() > TEXT_SIZE_MAX {
            text.pop();
        }
        text
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        let code = match &error {
            ModelError::NoSuchHost(_)
            | ModelError::NoSuchUser(_)
            | ModelError::NoSuchPermission { .. }
            | ModelError::NoSuchTopicPermission { .. }
            | ModelError::TooManyOfHost { .. }
            | ModelError::TooManyOfUser { .. }
            | ModelError::TooManyChannels { .. } => code::NOT_ALLOWED,
            ModelError::NoSuchQueue { .. } | ModelError::NoSuchExchange { .. } | ModelError::NoSuchBinding(_) => {
                code::NOT_FOUND
            }
            ModelError::Locked { .. } => code::RESOURCE_LOCKED,
            ModelError::ExclusiveUse { .. } => code::ACCESS_REFUSED,
            ModelError::OtherQueue(_)
            | ModelError::OtherExchange(_)
            | ModelError::TooManyQueues { .. }
            | ModelError::InUse { .. }
            | ModelError::Exists { .. } => code::PRECONDITION_FAILED,
            ModelError::Refused(refusal) => return refusal.clone().into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<MethodError> for Fault {
    fn from(error: MethodError) -> Self {
        let code = if matches!(error, MethodError::Unknown(_)) { code::COMMAND_INVALID } else { code::SYNTAX_ERROR };
        Self::new(code, error.to_string())
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotPermitted(_) => code::ACCESS_REFUSED,
            Refusal::NotSupported(_) => code::NOT_IMPLEMENTED,
            Refusal::BadMessage(_) | Refusal::BadRequest(_) | Refusal::Unavailable(_) | Refusal::Busy(_) => {
                code::PRECONDITION_FAILED
            }
            _ => code::INTERNAL_ERROR,
        };
        Self::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_begin_with_the_name_of_their_code_and_fit() {
        let fault = Fault::new(code::NOT_FOUND, "no queue 'q' in vhost '/'");
        assert_eq!((fault.reply_text().as_str(), fault.is_hard()), ("NOT_FOUND - no queue 'q' in vhost '/'", false));
        let long = Fault::new(code::NOT_ALLOWED, "ä".repeat(300));
        assert!(long.is_hard() && long.reply_text().len() <= 255 && long.reply_text().len() > 250);
    }
}
