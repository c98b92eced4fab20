//! `GET /`: a page for people who follow the address that the ready line shows.

use axum::response::Html;

pub(crate) async fn get() -> Html<&'static str> {
    Html(PAGE)
}

const PAGE: &str = "\
<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Sluice</title>
<h1>Sluice</h1>
<ul>
<li><a href=\"/health\">/health</a>: whether it does its work; 200 if so, otherwise 503 with the reason
<li><a href=\"/metrics\">/metrics</a>: every figure, in the text form that Prometheus reads
</ul>
<p>Clients of RocketMQ connect to the other ports that the ready line names.
";
