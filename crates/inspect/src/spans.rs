//! Stretches of the log that are damaged: what points into them is not blamed for it.

/// Stretches kept; beyond that the last one is drawn out.
const SPANS_MAX: usize = 100_000;

/// Ordered stretches that do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<(u64, u64)>,
}

impl Spans {
    /// Adds `from..to`; calls come in order.
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        let full = self.spans.len() >= SPANS_MAX;
        match self.spans.last_mut() {
            Some(last) if from <= last.1 || full => last.1 = last.1.max(to),
            _ if from < to => self.spans.push((from, to)),
            _ => {}
        }
    }

    pub(crate) fn contains(&self, offset: u64) -> bool {
        let after = self.spans.partition_point(|(from, _)| *from <= offset);
        after.checked_sub(1).and_then(|at| self.spans.get(at)).is_some_and(|(_, to)| offset < *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_lies_in_a_span_or_not() {
        let mut spans = Spans::default();
        spans.add(10, 20);
        spans.add(15, 25);
        spans.add(40, 40);
        spans.add(50, 60);
        spans.add(52, 55);
        let inside: Vec<u64> = (0..70).filter(|&offset| spans.contains(offset)).collect();
        assert_eq!(inside, (10..25).chain(50..60).collect::<Vec<u64>>());
    }

    #[test]
    fn of_too_many_the_last_is_drawn_out() {
        let mut spans = Spans::default();
        (0..=SPANS_MAX as u64 + 5).for_each(|number| spans.add(number * 10, number * 10 + 1));
        assert_eq!(spans.spans.len(), SPANS_MAX);
        let end = (SPANS_MAX as u64 + 5) * 10;
        assert!(spans.contains(end) && spans.contains(end - 5) && !spans.contains(5) && !spans.contains(end + 1));
    }
}
