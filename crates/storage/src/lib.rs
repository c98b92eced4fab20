//! Commit log, queue index, key index, flush, recovery, retention.
