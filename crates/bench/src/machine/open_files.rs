//! How many files this process may have open: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as it can be given.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is not allowed, opening too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
