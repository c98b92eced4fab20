//! What one connection of each protocol means.
