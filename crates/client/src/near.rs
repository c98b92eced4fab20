//! Which names are like one that is not known.

use strsim::{damerau_levenshtein, jaro_winkler};

/// Names told, at most.
const NAMES_MAX: usize = 3;
/// How alike a name has to be: 1 is the same.
const LIKENESS_MIN: f64 = 0.8;

/// The names most like `wanted`, the most like first.
pub(crate) fn near(wanted: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(usize, String)> = names
        .into_iter()
        .map(|name| (name.to_lowercase(), name))
        .filter(|(lower, _)| jaro_winkler(&wanted, lower) >= LIKENESS_MIN)
        .map(|(lower, name)| (damerau_levenshtein(&wanted, &lower), name))
        .collect();
    found.sort();
    found.truncate(NAMES_MAX);
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_slip_are_near_and_others_are_not() {
        let names = || ["orders", "Orders2", "invoices", "order-events"].map(str::to_owned);
        assert_eq!(near("ordrs", names()).first().map(String::as_str), Some("orders"));
        assert_eq!(near("ORDERS", names()).first().map(String::as_str), Some("orders"));
        assert!(near("zebra", names()).is_empty());
    }
}
