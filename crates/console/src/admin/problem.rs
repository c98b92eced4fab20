//! Why a request was not carried out: a status for programs, a text for people, and names that may have been meant.

use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::Refusal;
use broker::{Broker, ModelError};
use dialect::amqp::AdminError;
use serde_json::{Value, json};

use super::{document, nearest};

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    text: String,
    /// Names that are there, the likeliest first.
    nearest: Vec<String>,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), nearest: Vec::new() }
    }

    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn unauthorized(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// The same with names that may have been meant.
    pub(super) fn near(self, nearest: Vec<String>) -> Self {
        Self { nearest, ..self }
    }

    /// The same, with what went before it.
    pub(super) fn after(self, before: &str) -> Self {
        Self { text: format!("{before}: {}", self.text), ..self }
    }

    pub(super) fn too_late(text: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, text)
    }

    pub(super) fn too_large(text: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    pub(super) fn method_not_allowed(text: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, text)
    }

    pub(super) fn not_json(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }

    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    pub(super) fn busy(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, text)
    }

    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// Why, for people.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The problem that an error of the model is, with the names that may have been meant instead of one that there is not.
    pub(super) fn of(error: &ModelError, broker: &Broker) -> Self {
        let text = error.to_string();
        match error {
            ModelError::NoSuchHost(_)
            | ModelError::NoSuchUser(_)
            | ModelError::NoSuchPermission { .. }
            | ModelError::NoSuchTopicPermission { .. }
            | ModelError::NoSuchBinding(_)
            | ModelError::NoSuchQueue { .. }
            | ModelError::NoSuchExchange { .. } => {
                Self { nearest: nearest::of(error, broker), ..Self::not_found(text) }
            }
            ModelError::Locked { .. }
            | ModelError::ExclusiveUse { .. }
            | ModelError::OtherQueue(_)
            | ModelError::OtherExchange(_)
            | ModelError::InUse { .. }
            | ModelError::TooManyQueues { .. }
            | ModelError::TooManyOfHost { .. }
            | ModelError::TooManyOfUser { .. }
            | ModelError::TooManyChannels { .. }
            | ModelError::Exists { .. } => Self::conflict(text),
            ModelError::Refused(refusal) => refusal.clone().into(),
        }
    }

    pub(super) fn of_admin(error: &AdminError, broker: &Broker) -> Self {
        match error {
            AdminError::Model(error) => Self::of(error, broker),
            AdminError::Differs(text) => Self::conflict(text),
            AdminError::Invalid(text) => Self::bad(text),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::BadRequest(_)
            | Refusal::BadName { .. }
            | Refusal::BadMessage(_)
            | Refusal::BadFilter(_)
            | Refusal::NotSupported(_)
            | Refusal::ReservedTopic(_) => Self::bad(text),
            Refusal::NoSuchTopic(_)
            | Refusal::NoSuchGroup(_)
            | Refusal::NoSuchQueue { .. }
            | Refusal::NoSuchMessage(_)
            | Refusal::NotFound(_) => Self::not_found(text),
            Refusal::NotPermitted(_)
            | Refusal::GroupOffline(_)
            | Refusal::NoSubscription { .. }
            | Refusal::StaleSubscription { .. } => Self::conflict(text),
            Refusal::Unavailable(_) => Self::unavailable(text),
            Refusal::Busy(_) => Self::busy(text),
            Refusal::FlushTimedOut | Refusal::ReplicationTimedOut | Refusal::NoReplica | Refusal::Internal(_) => {
                Self::failed(text)
            }
        }
    }
}

impl OperationOutput for Problem {
    type Inner = Value;

    fn inferred_responses(_: &mut GenContext, _: &mut Operation) -> Vec<(Option<u16>, aide::openapi::Response)> {
        let names =
            json!({"type": "array", "items": {"type": "string"}, "description": "names that may have been meant"});
        let error = json!({"type": "string", "description": "why not, for people"});
        let schema = json!({"type": "object", "required": ["error"], "properties": {"error": error, "nearest": names}});
        vec![(None, document::response("It was not done", schema))]
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, text, nearest } = self;
        let mut body = json!({"error": text});
        if !nearest.is_empty() {
            body["nearest"] = nearest.into();
        }
        let mut answer = (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response();
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}
