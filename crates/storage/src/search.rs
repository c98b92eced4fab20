//! Searches among entries in order, by halves.

use std::ops::Range;

/// Entries looked at before the one found: so many that seem to be gone one after another, since they were damaged, hide none that is kept.
const LOOKED_BACK: u64 = 256;

/// The smallest number in `low..high` for which `is_late` holds, or `high`. Ends with the first error.
pub(crate) fn partition_point<E>(
    mut low: u64,
    mut high: u64,
    mut is_late: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_late(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// The first number in `low..high` that is kept, or `high`: all before it are gone. `first_in` tells the first that is kept in a part.
pub(crate) fn first_kept<E>(
    low: u64,
    mut high: u64,
    mut first_in: impl FnMut(Range<u64>) -> Result<Option<u64>, E>,
) -> Result<u64, E> {
    loop {
        let found = partition_point(low, high, |number| Ok(first_in(number..number + 1)?.is_some()))?;
        match first_in(found.saturating_sub(LOOKED_BACK).max(low)..found)? {
            Some(kept) => high = kept,
            None => return Ok(found),
        }
    }
}
