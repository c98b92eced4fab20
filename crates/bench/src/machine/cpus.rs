//! Processors by their numbers: some for the brokers, the others for the load generator.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::BenchError;

/// Leaves this thread, and those it will start, the processors that `list` (as `taskset` has it: `0,2-3`) does not name.
pub fn leave(list: &str) -> Result<(), BenchError> {
    let wrong = |problem: String| BenchError::WrongOption { name: "cpus", problem };
    let named = parse(list).ok_or_else(|| wrong(format!("{list:?} is not a list of processors as in 0,2-3")))?;
    let system = |error: rustix::io::Errno| wrong(error.to_string());
    let available = sched_getaffinity(None).map_err(system)?;
    let (mut rest, mut is_any_named) = (CpuSet::new(), false);
    for number in (0..CpuSet::MAX_CPU).filter(|&number| available.is_set(number)) {
        if named.iter().any(|range| range.contains(&number)) {
            is_any_named = true;
        } else {
            rest.set(number);
        }
    }
    if !is_any_named {
        return Err(wrong(format!("this machine has none of the processors {list}")));
    }
    if rest.count() == 0 {
        return Err(wrong(format!("{list} leaves no processor for the load generator")));
    }
    sched_setaffinity(None, &rest).map_err(system)
}

fn parse(list: &str) -> Option<Vec<std::ops::RangeInclusive<usize>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_nonsense_is_named() {
        assert_eq!(parse("0,2-3"), Some(vec![0..=0, 2..=3]));
        assert_eq!(parse("a"), None);
        for list in ["x", "", "0-1023", "1023"] {
            assert!(leave(list).expect_err(list).to_string().contains("cpus"), "{list}");
        }
    }
}
