//! `GET /`: a page for people who follow the address that the ready line shows.

use axum::response::Html;

pub(crate) async fn get() -> Html<&'static str> {
    Html(include_str!("index.html"))
}
