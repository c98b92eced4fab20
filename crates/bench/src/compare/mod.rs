//! Comparisons: brokers that are started, scenarios they are taken through in turn, what came of it, and its pages.

pub(crate) mod comparison;
#[cfg(test)]
pub(crate) mod example;
pub(crate) mod markdown;
pub(crate) mod measured;
pub(crate) mod page;
pub(crate) mod peer;
pub(crate) mod ratio;
pub(crate) mod remarks;
pub(crate) mod rounds;
pub(crate) mod scenario;
pub(crate) mod stage;
pub(crate) mod start_up;
