//! The page that tells users which requests are answered says what the table of requests says.

use std::collections::BTreeSet;
use std::path::Path;

use dialect::rocketmq::REQUESTS;
use wire::rocketmq::code::request;

/// Codes of the page's table, and whether it says that they are answered.
fn told() -> Vec<(i32, bool)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, part) = page.split_once("## Requests to the broker").expect("the part");
    let (part, _) = part.split_once("\n## ").expect("its end");
    let mut told = Vec::new();
    for line in part.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let &[codes, _, answered] = &cells[..] else { continue };
        let codes = codes.trim_start_matches("| ");
        for part in codes.split(", ") {
            let bounds: Vec<i32> = part.split(" to ").filter_map(|code| code.parse().ok()).collect();
            let (Some(&first), Some(&last)) = (bounds.first(), bounds.last()) else { continue };
            told.extend((first..=last).map(|code| (code, !answered.starts_with("no"))));
        }
    }
    told
}

#[test]
fn the_page_tells_of_every_request_that_is_answered_and_of_no_other() {
    let answered: BTreeSet<_> = REQUESTS.iter().map(|row| row.code).collect();
    assert_eq!(answered.len(), REQUESTS.len(), "one row each");
    let told = told();
    let told_answered: BTreeSet<_> =
        told.iter().filter(|(_, is_answered)| *is_answered).map(|(code, _)| *code).collect();
    let names = |codes: BTreeSet<i32>| codes.into_iter().map(|code| (code, request::name(code))).collect::<Vec<_>>();
    assert_eq!(names(told_answered), names(answered));
    assert!(told.len() > REQUESTS.len() + 10, "it tells of requests that are not answered too");
}
