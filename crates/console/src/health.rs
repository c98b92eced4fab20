//! `GET /health`: whether the process does its work, and if not, why.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

use crate::Sources;

pub(crate) async fn get(State(sources): State<Sources>) -> impl IntoResponse {
    let problem = sources.broker.as_ref().and_then(|broker| {
        let poisoned = broker.poisoned().map(|refusal| refusal.to_string());
        poisoned.or_else(|| {
            broker.store().writes_are_refused().then(|| {
                "the disk is full: messages are refused, or will be once the log's current segment is full".to_owned()
            })
        })
    });
    let (status, body) = match problem {
        None => (StatusCode::OK, json!({"status": "up"})),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "down", "reason": reason})),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string())
}
