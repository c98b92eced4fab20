//! Rules of headers: whether a message has what a binding asks for.
//!
//! Values come as bytes, the letter of their type first. They are compared without their types: integers of any width
//! and times (in seconds) are equal if the numbers are, `f` and `d` likewise, but no integer is equal to a float; strings (`S`) and byte
//! arrays (`x`) are equal if their bytes are. Tables, arrays and decimals are equal if they were written alike.

use format::model::Text;

/// Begins names of headers that only some rules ask for.
const SPECIAL: &[u8] = b"x-";

/// Says in a binding's arguments how it matches, and asks for nothing.
const MATCH: &[u8] = b"x-match";

/// What a message says of itself.
pub trait Headers {
    /// The value of a header, type included.
    fn get(&self, name: &[u8]) -> Option<&[u8]>;
}

/// How many of the headers have to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMode {
    /// All; of none, all are there.
    All,
    /// One of them; of none, none is there.
    Any,
}

/// What headers a binding asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// How many.
    pub mode: HeaderMode,
    /// Whether names that begin with `x-` count.
    pub with_x: bool,
    /// Names, each with a value, type included, or with any.
    pub wanted: Vec<(Text, Option<Text>)>,
}

impl HeaderRule {
    /// Whether a message is asked for.
    pub(super) fn matches(&self, headers: Option<&dyn Headers>) -> bool {
        let counts = |name: &[u8]| if self.with_x { name != MATCH } else { !name.starts_with(SPECIAL) };
        let mut wanted = self.wanted.iter().filter(|(name, _)| counts(name));
        let is_there = |(name, value): &(Text, Option<Text>)| {
            let found = headers.and_then(|headers| headers.get(name));
            found.is_some_and(|found| value.as_ref().is_none_or(|value| is_same(value, found)))
        };
        match self.mode {
            HeaderMode::All => wanted.all(is_there),
            HeaderMode::Any => wanted.any(is_there),
        }
    }
}

fn is_same(wanted: &[u8], found: &[u8]) -> bool {
    wanted == found || Meaning::of(wanted) == Meaning::of(found)
}

/// A value without its type.
#[derive(PartialEq)]
enum Meaning<'a> {
    Integer(i128),
    Float(f64),
    Bool(bool),
    /// With its length.
    Text(&'a [u8]),
    /// As it was written.
    Other(&'a [u8]),
}

impl<'a> Meaning<'a> {
    /// What was not written as its type asks for means nothing more than its bytes.
    fn of(value: &'a [u8]) -> Self {
        Self::read(value).unwrap_or(Self::Other(value))
    }

    fn read(value: &'a [u8]) -> Option<Self> {
        let (kind, rest) = value.split_first()?;
        Some(match kind {
            b'b' => Self::Integer(i8::from_be_bytes(rest.try_into().ok()?).into()),
            b'B' => Self::Integer(u8::from_be_bytes(rest.try_into().ok()?).into()),
            b's' => Self::Integer(i16::from_be_bytes(rest.try_into().ok()?).into()),
            b'u' => Self::Integer(u16::from_be_bytes(rest.try_into().ok()?).into()),
            b'I' => Self::Integer(i32::from_be_bytes(rest.try_into().ok()?).into()),
            b'i' => Self::Integer(u32::from_be_bytes(rest.try_into().ok()?).into()),
            b'l' | b'L' => Self::Integer(i64::from_be_bytes(rest.try_into().ok()?).into()),
            b'T' => Self::Integer(u64::from_be_bytes(rest.try_into().ok()?).into()),
            b'f' => Self::Float(f32::from_be_bytes(rest.try_into().ok()?).into()),
            b'd' => Self::Float(f64::from_be_bytes(rest.try_into().ok()?)),
            b't' => Self::Bool(u8::from_be_bytes(rest.try_into().ok()?) != 0),
            b'S' | b'x' => Self::Text(rest),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<(&'static [u8], &'static [u8])>);

    impl Headers for Given {
        fn get(&self, name: &[u8]) -> Option<&[u8]> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        }
    }

    fn rule(mode: HeaderMode, with_x: bool, wanted: &[(&[u8], Option<&[u8]>)]) -> HeaderRule {
        let wanted = wanted.iter().map(|(name, value)| ((*name).into(), value.map(Into::into))).collect();
        HeaderRule { mode, with_x, wanted }
    }

    #[test]
    fn all_or_any_of_the_headers_have_to_be_there() {
        let wanted: &[(&[u8], Option<&[u8]>)] = &[(b"a", Some(b"I\0\0\0\x01")), (b"b", None)];
        let (all, any) = (rule(HeaderMode::All, false, wanted), rule(HeaderMode::Any, false, wanted));
        type Case = (Vec<(&'static [u8], &'static [u8])>, bool, bool);
        let cases: Vec<Case> = vec![
            (vec![(b"a", b"I\0\0\0\x01"), (b"b", b"V")], true, true),
            (vec![(b"a", b"I\0\0\0\x01")], false, true),
            (vec![(b"b", b"S\0\0\0\0")], false, true),
            (vec![(b"a", b"I\0\0\0\x02"), (b"b", b"t\x01")], false, true),
            (vec![(b"a", b"I\0\0\0\x02"), (b"c", b"t\x01")], false, false),
            (vec![(b"a", b"V")], false, false),
            (vec![], false, false),
        ];
        for (given, is_all, is_any) in cases {
            let given = Given(given);
            assert_eq!((all.matches(Some(&given)), any.matches(Some(&given))), (is_all, is_any), "{:?}", given.0);
        }
        assert!(!all.matches(None) && !any.matches(None));
    }

    #[test]
    fn of_nothing_all_is_there_and_none() {
        let given = Given(vec![(b"a", b"V")]);
        for headers in [None, Some(&given as &dyn Headers)] {
            assert!(rule(HeaderMode::All, true, &[]).matches(headers));
            assert!(!rule(HeaderMode::Any, true, &[]).matches(headers));
        }
    }

    #[test]
    fn names_with_an_x_count_where_the_rule_says_so() {
        let wanted: &[(&[u8], Option<&[u8]>)] = &[(b"x-match", Some(b"V")), (b"x-a", Some(b"t\x01")), (b"b", None)];
        let without = Given(vec![(b"b", b"V")]);
        assert!(rule(HeaderMode::All, false, wanted).matches(Some(&without)));
        assert!(!rule(HeaderMode::All, true, wanted).matches(Some(&without)));
        let with = Given(vec![(b"x-a", b"t\x01"), (b"x-match", b"V")]);
        assert!(!rule(HeaderMode::Any, false, wanted).matches(Some(&with)));
        assert!(rule(HeaderMode::Any, true, wanted).matches(Some(&with)));
        let named = Given(vec![(b"x-match", b"V")]);
        assert!(!rule(HeaderMode::Any, true, wanted).matches(Some(&named)), "how it matches is nothing to match");
    }

    #[test]
    fn values_are_the_same_whatever_their_type_is() {
        let same: [&[&[u8]]; 6] = [
            &[b"b\x05", b"B\x05", b"s\0\x05", b"u\0\x05", b"I\0\0\0\x05", b"i\0\0\0\x05", b"l\0\0\0\0\0\0\0\x05"],
            &[b"L\0\0\0\0\0\0\0\x05", b"T\0\0\0\0\0\0\0\x05", b"B\x05"],
            &[b"b\xff", b"s\xff\xff", b"I\xff\xff\xff\xff", b"l\xff\xff\xff\xff\xff\xff\xff\xff"],
            &[b"f\x3f\x80\0\0", b"d\x3f\xf0\0\0\0\0\0\0"],
            &[b"S\0\0\0\x01a", b"x\0\0\0\x01a"],
            &[b"t\x01", b"t\x02"],
        ];
        for values in same {
            assert!(values.iter().all(|one| values.iter().all(|other| is_same(one, other))), "{values:?}");
        }
        let different: [&[u8]; 14] = [
            b"b\xff",
            b"B\xff",
            b"u\xff\xff",
            b"T\xff\xff\xff\xff\xff\xff\xff\xff",
            b"b\x01",
            b"d\x3f\xf0\0\0\0\0\0\0",
            b"t\x01",
            b"t\0",
            b"V",
            b"S\0\0\0\x011",
            b"A\0\0\0\x02b\x01",
            b"A\0\0\0\x03s\0\x01",
            b"D\x01\0\0\0\x01",
            b"I\x01",
        ];
        for (at, one) in different.iter().enumerate() {
            assert!(
                different.iter().enumerate().all(|(other_at, other)| is_same(one, other) == (at == other_at)),
                "{one:?}"
            );
        }
        assert!(!is_same(b"", b"V") && is_same(b"", b""));
    }
}
