//! The page that tells users which requests a name server answers says what the table of requests says.

use std::collections::BTreeSet;
use std::path::Path;

use cluster::name_server::requests::REQUESTS;

#[test]
fn the_page_tells_of_every_request_that_is_answered_and_of_no_other() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, part) = page.split_once("## Requests to the name server").expect("the part");
    let (part, _) = part.split_once("\n## ").expect("its end");
    let codes = |line: &str| -> Option<Vec<i32>> {
        let (codes, _) = line.strip_prefix("| ")?.split_once(" | ")?;
        codes.split(", ").map(|code| code.parse().ok()).collect()
    };
    let told: Vec<i32> = part.lines().filter_map(codes).flatten().collect();
    let answered: BTreeSet<i32> = REQUESTS.iter().map(|row| row.code).collect();
    assert_eq!((told.len(), answered.len()), (answered.len(), REQUESTS.len()), "each once");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), answered);
}
