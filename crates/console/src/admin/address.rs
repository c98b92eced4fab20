//! What a request's address says: names in its path, and pairs behind it.

use std::error::Error;

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use aide::operation::{ParamLocation, add_parameters, parameters_from_schema};
use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::Uri;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Names in the path.
pub(super) struct Path<T>(pub(super) T);

/// Pairs behind the path.
pub(super) struct Query<T>(pub(super) T);

/// Their names are in the path itself; see the document.
impl<T> OperationInput for Path<T> {}

impl<T: JsonSchema> OperationInput for Query<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        let parameters = parameters_from_schema(context, schema, ParamLocation::Query);
        add_parameters(context, operation, parameters);
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = AxumPath::from_request_parts(parts, state).await;
        read.map(|AxumPath(names)| Self(names)).map_err(|error| told("path", &error))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = AxumQuery::from_request_parts(parts, state).await;
        read.map(|AxumQuery(pairs)| Self(pairs)).map_err(|error| told("query", &error))
    }
}

/// The address with `.` and `..` as names, which browsers take out of a path however they are escaped: the page puts the byte 255 before them,
/// which is in no text. `None`: there is none.
pub(crate) fn with_dots(address: &Uri) -> Option<Uri> {
    let path = address.path_and_query()?.as_str();
    let dotted = path.contains("/%FF.").then(|| path.replace("/%FF.", "/."))?;
    let mut parts = address.clone().into_parts();
    parts.path_and_query = Some(dotted.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// What is wrong with a part of the address: the innermost reason, which names what it is about.
fn told(part: &str, error: &(dyn Error + 'static)) -> Problem {
    let reason = std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error);
    Problem::bad(format!("the {part} of the address cannot be used: {reason}"))
}
