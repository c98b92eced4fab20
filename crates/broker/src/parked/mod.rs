//! Messages that are stored and not visible yet: those with a delay level.

pub(crate) mod delay;
pub(crate) mod delivery;
