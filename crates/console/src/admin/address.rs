//! What a request's address says: names in its path, and pairs behind it.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Names in the path.
pub(super) struct Path<T>(pub(super) T);

/// Pairs behind the path.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = AxumPath::from_request_parts(parts, state).await;
        read.map(|AxumPath(names)| Self(names)).map_err(|error| Problem::bad(error.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = AxumQuery::from_request_parts(parts, state).await;
        read.map(|AxumQuery(pairs)| Self(pairs)).map_err(|error| Problem::bad(error.body_text()))
    }
}
