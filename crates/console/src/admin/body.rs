//! JSON that a request brings along: bounded in size and in the time it may take to come.

use std::fmt;
use std::time::Duration;

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, RequestBody, SchemaObject};
use aide::operation::set_body;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Bytes of a body: names and arguments.
const SIZE_MAX: usize = 64 * 1024;

/// How long a body may take to come.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request's JSON.
pub(super) struct Body<T>(pub(super) T);

impl<T: JsonSchema> OperationInput for Body<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        let schema = SchemaObject { json_schema: schema, external_docs: None, example: None };
        let kind = MediaType { schema: Some(schema), ..MediaType::default() };
        let body = RequestBody {
            content: [("application/json".to_owned(), kind)].into_iter().collect(),
            required: true,
            ..RequestBody::default()
        };
        set_body(context, operation, body);
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // A page of somebody else cannot send this type without asking first.
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return Err(Problem::not_json("send JSON, with the header Content-Type: application/json"));
        }
        let reading = axum::body::to_bytes(request.into_body(), SIZE_MAX);
        let body = tokio::time::timeout(TIMEOUT, reading).await;
        let body = body.map_err(|_| Problem::too_late("the request did not come whole within 10 s"))?;
        let body = body.map_err(|_| Problem::too_large("the request is broken, or has more than 64 KiB"))?;
        read(&body).map(Self)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        // Of the whole there is no name, nor of what is no JSON at all.
        if inner.is_data() && path != "." { unusable(&format_args!("{path}: {inner}")) } else { unusable(&inner) }
    })?;
    json.end().map(|()| read).map_err(|error| unusable(&error))
}

fn unusable(why: &dyn fmt::Display) -> Problem {
    Problem::bad(format!("the JSON cannot be used: {why}"))
}
