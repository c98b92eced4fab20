//! Lists in pieces: a broker may have a million of something.
//!
//! A piece begins at a position. Where things come and go meanwhile, one of them may be missed or come twice.

use std::cmp::Ordering;
use std::num::NonZero;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::problem::Problem;

/// Items of a piece.
const ITEMS_MAX: usize = 1000;

/// What an item is called, in lists of whatever kind: here is searched.
const NAMES: [&str; 8] = ["name", "client", "address", "group", "user", "source", "destination", "key"];

/// Which piece is asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Piece {
    /// Position of the first item.
    from: usize,
    /// So many items at most, 1 or more, and no more than 1000.
    count: Option<NonZero<usize>>,
    /// Only items whose name has this in it, in capitals or not.
    search: Option<String>,
    /// The field by which they are sorted; with a `-` before it the largest comes first.
    sort: Option<String>,
}

impl Piece {
    /// These of all, each shown, with the position at which to go on if there are more, and how many there are in all.
    pub(super) fn of<T>(
        self,
        all: impl IntoIterator<Item = T>,
        shown: impl FnMut(T) -> Value,
    ) -> Result<Value, Problem> {
        let count = self.count.map_or(ITEMS_MAX, NonZero::get).min(ITEMS_MAX);
        let all: Vec<_> = all.into_iter().collect();
        let cut = |total: usize, items: Vec<Value>| {
            let next = self.from.saturating_add(count);
            json!({"items": items, "next": (next < total).then_some(next), "total": total})
        };
        if self.search.is_none() && self.sort.is_none() {
            let total = all.len();
            return Ok(cut(total, all.into_iter().skip(self.from).take(count).map(shown).collect()));
        }
        let searched = self.search.as_deref().unwrap_or_default().to_lowercase();
        let mut items: Vec<_> = all.into_iter().map(shown).filter(|item| is_named(item, &searched)).collect();
        if let Some(sort) = &self.sort {
            let (field, is_down) = sort.strip_prefix('-').map_or((&**sort, false), |field| (field, true));
            if !items.is_empty() && items.iter().all(|item| item.get(field).is_none()) {
                return Err(Problem::bad(format!("nothing in this list has the field '{field}' to sort by")));
            }
            items.sort_by(|a, b| match (a.get(field), b.get(field)) {
                (Some(a), Some(b)) if is_down => order(b, a),
                (Some(a), Some(b)) => order(a, b),
                // What does not have it comes last, either way.
                (a, b) => b.is_some().cmp(&a.is_some()),
            });
        }
        Ok(cut(items.len(), items.into_iter().skip(self.from).take(count).collect()))
    }
}

fn is_named(item: &Value, searched: &str) -> bool {
    let texts = NAMES.iter().filter_map(|name| item[name].as_str());
    searched.is_empty() || texts.into_iter().any(|text| text.to_lowercase().contains(searched))
}

/// Numbers by their size, texts by the alphabet, what is neither before both.
fn order(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a_number, b_number) => a_number.is_some().cmp(&b_number.is_some()).then_with(|| a.as_str().cmp(&b.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_together_are_the_whole_list() {
        let (mut whole, mut from) = (Vec::new(), Some(0));
        while let Some(position) = from {
            let piece =
                Piece { from: position, ..Piece::default() }.of(0..2000, |item: u32| item.into()).expect("listed");
            assert_eq!(piece["total"], 2000);
            whole.extend(piece["items"].as_array().expect("a list").iter().filter_map(Value::as_u64));
            from = piece["next"].as_u64().map(|next| next as usize);
        }
        assert_eq!(whole, (0..2000).collect::<Vec<_>>());
    }

    #[test]
    fn a_piece_of_what_was_searched_for_is_sorted_as_it_was_asked_for() {
        let all = [("Orders", 3), ("bills", 10), ("orders-2", 20), ("orders-3", 100)];
        let names = |piece: &Piece| {
            let piece = piece.clone().of(all, |(name, lag)| json!({"name": name, "lag": lag})).expect("listed");
            let items = piece["items"].as_array().expect("a list");
            let names: Vec<_> = items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect();
            (names, piece["next"].as_u64(), piece["total"].as_u64())
        };
        let search = Piece { search: Some("ORDERS".to_owned()), count: NonZero::new(2), ..Piece::default() };
        assert_eq!(names(&search), (vec!["Orders".to_owned(), "orders-2".to_owned()], Some(2), Some(3)));
        let sorted = Piece { sort: Some("-lag".to_owned()), count: NonZero::new(3), ..Piece::default() };
        assert_eq!(names(&sorted).0, ["orders-3", "orders-2", "bills"]);
        let sorted = Piece { sort: Some("name".to_owned()), from: 3, ..Piece::default() };
        assert_eq!(names(&sorted), (vec!["orders-3".to_owned()], None, Some(4)));
        let unknown = Piece { sort: Some("size".to_owned()), ..Piece::default() };
        assert!(unknown.of(all, |(name, _)| json!({"name": name})).is_err());
    }

    #[test]
    fn what_some_items_have_can_be_sorted_by_and_others_come_last() {
        let all = [json!({"name": "a"}), json!({"name": "b", "user": "x"}), json!({"name": "c", "user": "w"})];
        for (sort, names) in [("user", ["c", "b", "a"]), ("-user", ["b", "c", "a"])] {
            let piece = Piece { sort: Some(sort.to_owned()), ..Piece::default() }.of(all.clone(), |item| item);
            let sorted = piece.expect("listed")["items"].take();
            assert!(sorted.as_array().expect("a list").iter().map(|item| &item["name"]).eq(&names), "{sort}: {sorted}");
        }
    }
}
