//! What the name server promises, at the level of bytes: requests go in, answers come out.

mod acting;
mod asking;
mod captured;
mod client;
mod leaving;
mod malformed;
mod registering;
mod requests;
mod settings;
mod staying;
