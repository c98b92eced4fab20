//! Which messages of a queue a subscription wants, decided on what queue entries keep of the tag.

use base::Refusal;
use format::hash::tag_code;

/// A tag filter. The entry keeps only a hash, so the consumer compares the tag itself once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every message.
    All,
    /// Messages whose tag has one of these codes, sorted.
    Tags(Vec<i64>),
}

impl Filter {
    /// Parses `*`, or tags joined by `||`.
    pub fn parse(expression: &str) -> Result<Self, Refusal> {
        let expression = expression.trim();
        if expression.is_empty() || expression == "*" {
            return Ok(Self::All);
        }
        let tags: Vec<_> = expression.split("||").map(str::trim).filter(|tag| !tag.is_empty()).collect();
        if tags.is_empty() {
            return Err(Refusal::BadFilter(format!("the tag expression [{expression}] names no tag")));
        }
        Ok(Self::from_codes(tags.into_iter().map(tag_code)))
    }

    /// A filter of known codes; none at all means every message.
    pub fn from_codes(codes: impl Iterator<Item = i64>) -> Self {
        let mut codes: Vec<_> = codes.collect();
        codes.sort_unstable();
        codes.dedup();
        if codes.is_empty() { Self::All } else { Self::Tags(codes) }
    }

    /// Bytes it takes beside itself.
    pub const fn size(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Tags(codes) => codes.capacity() * size_of::<i64>(),
        }
    }

    /// Whether an entry's code passes.
    pub fn matches(&self, code: i64) -> bool {
        match self {
            Self::All => true,
            Self::Tags(codes) => codes.binary_search(&code).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_joined_by_bars() {
        let filter = Filter::parse(" A || B ").expect("parses");
        assert!(filter.matches(tag_code("A")) && filter.matches(tag_code("B")));
        assert!(!filter.matches(tag_code("C")) && !filter.matches(0));
        assert_eq!(Filter::parse("*"), Ok(Filter::All));
        assert_eq!(Filter::parse(""), Ok(Filter::All));
        assert!(Filter::parse("||").is_err());
    }
}
