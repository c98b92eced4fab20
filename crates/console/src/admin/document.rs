//! The OpenAPI document of the admin API, made of its routes and of the types that requests are read into.
//!
//! Answers are described by their kind alone: an object of JSON, or `{"error": ...}`.

use aide::axum::ApiRouter;
use aide::generate;
use aide::openapi::{Info, MediaType, OpenApi, Response, SchemaObject, Server};
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// Where the API is.
pub(crate) const BASE: &str = "/admin/v1";

/// These routes, and beside them the page `/openapi.json`, which describes them.
pub(super) fn described<S: Clone + Send + Sync + 'static>(routes: fn() -> ApiRouter<S>) -> Router<S> {
    // Each shape stands where it is used: their names say something only beside their routes. Counts for routes made from here on.
    generate::extract_schemas(false);
    let mut document = OpenApi {
        info: Info {
            title: "Sluice: the admin API".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Info::default()
        },
        servers: vec![Server { url: BASE.to_owned(), ..Server::default() }],
        ..OpenApi::default()
    };
    let router = routes().finish_api(&mut document);
    let document = with_names_in_paths(serde_json::to_value(&document).unwrap_or_default()).to_string();
    let page = move || {
        let document = document.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], document).into_response() }
    };
    router.route("/openapi.json", get(page))
}

/// Has each path say that what is in braces is a name.
fn with_names_in_paths(mut document: Value) -> Value {
    for (path, item) in document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut) {
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters: Vec<_> = names
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
            .collect();
        if !parameters.is_empty() {
            item["parameters"] = parameters.into();
        }
    }
    document
}

/// An answer of JSON.
pub(super) fn response(description: &str, schema: Value) -> Response {
    let schema =
        SchemaObject { json_schema: Schema::try_from(schema).unwrap_or_default(), external_docs: None, example: None };
    let kind = MediaType { schema: Some(schema), ..MediaType::default() };
    Response {
        description: description.to_owned(),
        content: [("application/json".to_owned(), kind)].into_iter().collect(),
        ..Response::default()
    }
}
