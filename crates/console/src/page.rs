//! The page for people: files inside the binary, and the headers that keep a browser from running anything else.
//!
//! Nothing in them is made for a request, and nothing comes from elsewhere. What they show they ask of the admin API.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Router;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Scripts and styles from here alone, nothing inline, in no frame.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      object-src 'none'";

macro_rules! files {
    ($($name:literal)*) => {
        /// Every file of the page, by its path below the console.
        const FILES: &[(&str, &[u8])] = &[$((concat!("/", $name), include_bytes!(concat!("../page/", $name)))),*];
    };
}

files! {
    "index.html"
    "icon.svg"
    "style.css"
    "app.js"
    "api.js"
    "chart.js"
    "dialog.js"
    "dom.js"
    "focus.js"
    "format.js"
    "json.js"
    "live.js"
    "table.js"
    "token.js"
    "pages/access.js"
    "pages/brokers.js"
    "pages/connections.js"
    "pages/exchanges.js"
    "pages/groups.js"
    "pages/host.js"
    "pages/messages.js"
    "pages/overview.js"
    "pages/queues.js"
    "pages/settings.js"
    "pages/topics.js"
    "vendor/uplot/uPlot.esm.js"
    "vendor/uplot/uPlot.min.css"
    "vendor/uplot/LICENSE"
}

/// One file, ready to be served.
#[derive(Clone, Copy)]
struct Served {
    kind: &'static str,
    bytes: &'static [u8],
    /// Names its content.
    tag: u64,
}

impl Served {
    fn of(path: &str, bytes: &'static [u8]) -> Self {
        let kind = match path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Self { kind, bytes, tag: hasher.finish() }
    }

    fn answer(self, asked: &HeaderMap) -> Response {
        let tag = format!("\"{:016x}\"", self.tag);
        let is_known = asked
            .get(header::IF_NONE_MATCH)
            .and_then(|tags| tags.to_str().ok())
            .is_some_and(|tags| tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag));
        let headers: [(HeaderName, &str); 7] = [
            (header::CONTENT_TYPE, self.kind),
            (header::ETAG, &tag),
            // Kept, and asked about each time: another version of the binary has other files.
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        if is_known {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.bytes).into_response()
    }
}

/// The files; `/` is the first of them.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let first = FILES.iter().take(1).map(|(path, bytes)| ("/", *path, *bytes));
    let all = first.chain(FILES.iter().map(|(path, bytes)| (*path, *path, *bytes)));
    all.fold(Router::new(), |router, (at, path, bytes)| {
        let served = Served::of(path, bytes);
        router.route(at, get(async move |headers: HeaderMap| served.answer(&headers)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_browser_has_is_not_sent_again() {
        let served = Served::of("/app.js", b"1");
        let first = served.answer(&HeaderMap::new());
        assert_eq!(
            (first.status(), &first.headers()["content-type"]),
            (StatusCode::OK, &"text/javascript; charset=utf-8".parse().expect("a value"))
        );
        let mut asked = HeaderMap::new();
        asked.insert("if-none-match", first.headers()["etag"].clone());
        assert_eq!(served.answer(&asked).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(Served::of("/app.js", b"2").answer(&asked).status(), StatusCode::OK);
    }

    #[test]
    fn files_name_only_files_that_are_there() {
        let known = |from: &str, named: &str| {
            let folder = from.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
            let mut path: Vec<_> = folder.split('/').collect();
            for part in named.split('/') {
                match part {
                    "." => {}
                    ".." => drop(path.pop()),
                    part => path.push(part),
                }
            }
            let path = path.join("/");
            FILES.iter().any(|(known, _)| *known == path)
        };
        let own = FILES.iter().filter(|(path, _)| path.ends_with(".js") && !path.starts_with("/vendor"));
        for (path, bytes) in own {
            let text = std::str::from_utf8(bytes).expect("text");
            for named in text.lines().filter_map(|line| line.split_once(" from \"")?.1.split('"').next()) {
                assert!(named.starts_with('.') && known(path, named), "{path} names {named}");
            }
        }
    }
}
