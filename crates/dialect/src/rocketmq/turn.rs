//! How much is answered before what is answered so far is written: the client works on the first answers while the broker prepares the
//! rest. With all of them in one write, client and broker wait for each other in turn.
//!
//! **Always holds**: a client that has asked for much gets few writes more: each turn answers as much as those before it together.

/// As much as two answers of 32 short messages.
const FIRST_SIZE: usize = 8 * 1024;

/// More than this is not held back in any case.
const LAST_SIZE: usize = 256 * 1024;

/// The turns of one connection.
#[derive(Debug)]
pub(super) struct Turn {
    /// Bytes of answers that had not been taken when it began.
    began_at: usize,
    size_max: usize,
    is_over: bool,
}

impl Default for Turn {
    fn default() -> Self {
        Self { began_at: 0, size_max: FIRST_SIZE, is_over: false }
    }
}

impl Turn {
    /// Begins a turn, while `output_size` bytes of answers are not written yet.
    pub(super) fn begin(&mut self, output_size: usize) {
        self.size_max = if self.is_over { LAST_SIZE.min(2 * self.size_max) } else { FIRST_SIZE };
        self.began_at = output_size;
        self.is_over = false;
    }

    /// Whether what was answered in it is to be written before more is, now that `output_size` bytes wait for that.
    pub(super) fn look(&mut self, output_size: usize) -> bool {
        self.is_over |= output_size.saturating_sub(self.began_at) >= self.size_max;
        self.is_over
    }

    /// Whether that was so when it was last looked at.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the writes for `count` answers of `size` bytes that were asked for at once.
    fn writes(turn: &mut Turn, count: usize, size: usize) -> Vec<usize> {
        let (mut writes, mut output) = (Vec::new(), 0);
        turn.begin(0);
        for _ in 0..count {
            if turn.look(output) {
                writes.push(std::mem::take(&mut output));
                turn.begin(0);
            }
            output += size;
        }
        writes.push(output);
        writes
    }

    #[test]
    fn the_first_answers_leave_early_and_many_leave_in_few_writes() {
        let mut turn = Turn::default();
        assert_eq!(writes(&mut turn, 1, 6000), [6000]);
        assert_eq!(writes(&mut turn, 4, 6000), [12_000, 12_000]);
        assert_eq!(writes(&mut turn, 8, 6000), [12_000, 18_000, 18_000]);
        let many = writes(&mut turn, 1000, 6000);
        assert_eq!((many.len(), many.iter().sum::<usize>()), (27, 6_000_000));
        assert_eq!(writes(&mut turn, 4, 6000), [12_000, 12_000], "the next begin anew");
        assert_eq!(writes(&mut turn, 100, 60), [6000]);
    }

    #[test]
    fn answers_that_are_not_taken_do_not_end_a_turn() {
        let mut turn = Turn::default();
        turn.begin(1 << 20);
        assert!(!turn.look(1 << 20) && !turn.look((1 << 20) + FIRST_SIZE - 1) && !turn.is_over());
        assert!(turn.look((1 << 20) + FIRST_SIZE) && turn.is_over());
    }
}
