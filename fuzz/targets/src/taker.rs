//! Takes what a target needs off the front of its input; past the end everything is zero or empty.

/// The rest of an input.
pub struct Taker<'a> {
    rest: &'a [u8],
}

impl<'a> Taker<'a> {
    /// All of `data`.
    pub const fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.slice(1).first().copied().unwrap_or_default()
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// The next `count` bytes, fewer at the end.
    pub fn slice(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// One of `choices`, by the next byte.
    pub fn choice<'b, T>(&mut self, choices: &'b [T]) -> &'b T {
        &choices[usize::from(self.byte()) % choices.len()]
    }

    /// Everything that is left.
    pub fn all(&mut self) -> &'a [u8] {
        self.slice(usize::MAX)
    }
}
