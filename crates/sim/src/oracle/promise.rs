//! What a crash may take of what was answered: the bounds of `docs/semantics.md`, each once.

/// From when on a crash takes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Once it is answered.
    WhenAnswered,
    /// Once the documents were written after it.
    WhenSaved,
}

/// Offsets that consumers commit: a killed process keeps them once they are answered, a power cut takes what was not synced since.
pub const COMMITS: Kept = Kept::WhenSaved;

/// What administrators change: topics, groups, offsets that are reset.
pub const ADMIN_CHANGES: Kept = Kept::WhenAnswered;
