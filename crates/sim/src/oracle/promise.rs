//! What a crash may take of what was answered: the bounds of `docs/semantics.md`, each once.

/// What survives what, once it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A killed process and a power cut.
    WhenAnswered,
    /// A killed process; a power cut once the log was synced after it.
    WhenSynced,
    /// A killed process once the log was written after it was put there, a power cut once that was synced.
    WhenSaved,
}

/// Offsets that consumers commit by a request of its own.
pub const COMMITS: Kept = Kept::WhenSynced;

/// And by a pull: they go into the log some time after.
pub const GATHERED_COMMITS: Kept = Kept::WhenSaved;

/// What administrators change: topics, groups, offsets that are reset.
pub const fn admin_changes(sync_flush: bool) -> Kept {
    if sync_flush { Kept::WhenAnswered } else { Kept::WhenSynced }
}
