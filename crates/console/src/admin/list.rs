//! Lists in pieces: a broker may have a million of something.
//!
//! A piece begins at a position. Where things come and go meanwhile, one of them may be missed or come twice.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Items of a piece.
const ITEMS_MAX: usize = 1000;

/// Which piece is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Piece {
    from: usize,
}

impl Piece {
    /// These of all, each shown, with the position at which to go on if there are more.
    pub(super) fn of<T>(self, all: impl IntoIterator<Item = T>, shown: impl FnMut(T) -> Value) -> Value {
        let mut rest = all.into_iter().skip(self.from);
        let items: Vec<_> = rest.by_ref().take(ITEMS_MAX).map(shown).collect();
        let next = rest.next().map(|_| self.from + ITEMS_MAX);
        json!({"items": items, "next": next})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_together_are_the_whole_list() {
        let (mut whole, mut from) = (Vec::new(), Some(0));
        while let Some(position) = from {
            let piece = Piece { from: position }.of(0..2000, |item: u32| item.into());
            whole.extend(piece["items"].as_array().expect("a list").iter().filter_map(Value::as_u64));
            from = piece["next"].as_u64().map(|next| next as usize);
        }
        assert_eq!(whole, (0..2000).collect::<Vec<_>>());
    }
}
