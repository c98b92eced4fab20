//! Failures of the store, as clients hear of them.

use base::Refusal;
use storage::StorageError;

/// Of anything but an append.
pub(crate) fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal(error.to_string())
}

/// Of an append.
pub(crate) fn refusal_of(error: StorageError) -> Refusal {
    match error {
        StorageError::RecordTooLarge { .. } => Refusal::BadMessage(error.to_string()),
        error => Refusal::Unavailable(error.to_string()),
    }
}
