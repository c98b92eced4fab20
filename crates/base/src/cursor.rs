//! A bounded reader over bytes: it cannot read past the end, and never allocates for a length it has not checked.

/// Why bytes could not be read as what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the structure needs.
    #[error("{what}: {needed} bytes needed, {found} there")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there were.
        found: usize,
    },
    /// A length or count that is negative, over its limit, or disagrees with another.
    #[error("{what}: length {found} is not within 0..={limit}")]
    BadLength {
        /// What was being read.
        what: &'static str,
        /// The value found.
        found: i64,
        /// The largest value allowed.
        limit: i64,
    },
    /// A value that cannot stand there.
    #[error("{what}: unexpected {found}")]
    BadValue {
        /// What was being read.
        what: &'static str,
        /// The value found, as text.
        found: String,
    },
}

/// Reads big-endian numbers and slices from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        /// The next number, big-endian.
        #[inline]
        pub fn $name(&mut self, what: &'static str) -> Result<$type, DecodeError> {
            let (head, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated {
                what,
                needed: size_of::<$type>(),
                found: self.bytes.len(),
            })?;
            self.bytes = rest;
            Ok(<$type>::from_be_bytes(*head))
        }
    };
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes not yet read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Whether everything was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    number!(u8, u8);
    number!(i16, i16);
    number!(u16, u16);
    number!(i32, i32);
    number!(u32, u32);
    number!(i64, i64);
    number!(u64, u64);

    /// The next `count` bytes.
    #[inline]
    pub fn slice(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or(DecodeError::Truncated {
            what,
            needed: count,
            found: self.bytes.len(),
        })?;
        self.bytes = rest;
        Ok(head)
    }

    /// The next `count` bytes as UTF-8.
    pub fn text(&mut self, count: usize, what: &'static str) -> Result<&'a str, DecodeError> {
        let bytes = self.slice(count, what)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::BadValue {
            what,
            found: format!("bytes that are not UTF-8: {:?}", preview(bytes)),
        })
    }

    /// A signed 32-bit length within `0..=limit`.
    #[inline]
    pub fn length_i32(&mut self, limit: usize, what: &'static str) -> Result<usize, DecodeError> {
        let found = self.i32(what)?;
        within(i64::from(found), limit, what)
    }

    /// A signed 16-bit length within `0..=limit`.
    #[inline]
    pub fn length_i16(&mut self, limit: usize, what: &'static str) -> Result<usize, DecodeError> {
        let found = self.i16(what)?;
        within(i64::from(found), limit, what)
    }
}

#[inline]
fn within(found: i64, limit: usize, what: &'static str) -> Result<usize, DecodeError> {
    match usize::try_from(found) {
        Ok(length) if length <= limit => Ok(length),
        _ => Err(DecodeError::BadLength { what, found, limit: i64::try_from(limit).unwrap_or(i64::MAX) }),
    }
}

/// The first bytes of a long value, for error texts.
pub fn preview(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned()
}
