//! What tests of the store share.

pub mod world;
