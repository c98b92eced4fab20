//! JSON bodies, one file per noun, in the shapes the official Java side reads and writes.

pub mod route;
