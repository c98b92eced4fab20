//! What happens, as it happens: a stream of server-sent events, which the page in the browser reads.

use std::convert::Infallible;

use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation};
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Admin;
use super::problem::Problem;
use crate::live::{Events, HangUp, READERS_MAX};

/// A stream of events.
pub(super) struct Stream(Events);

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::new(self.0)).into_response()
    }
}

impl OperationOutput for Stream {
    type Inner = Self;

    fn inferred_responses(_: &mut GenContext, _: &mut Operation) -> Vec<(Option<u16>, aide::openapi::Response)> {
        let description = "Server-sent events: `history` (the samples of the last minutes), then `sample` and `state` every two seconds";
        let content = [("text/event-stream".to_owned(), MediaType::default())].into_iter().collect();
        let response = aide::openapi::Response {
            description: description.to_owned(),
            content,
            ..aide::openapi::Response::default()
        };
        vec![(Some(StatusCode::OK.as_u16()), response)]
    }
}

impl aide::OperationInput for HangUp {}

impl<S: Send + Sync> FromRequestParts<S> for HangUp {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Samples and the state of the process, until the reader goes.
pub(super) async fn follow(State(admin): State<Admin>, hang_up: HangUp) -> Result<Stream, Problem> {
    let events = admin.live.follow(hang_up);
    let busy = || Problem::busy(format!("{READERS_MAX} pages follow already: close one of them, or try again"));
    events.map(Stream).ok_or_else(busy)
}
