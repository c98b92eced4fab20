//! The version that Sluice presents itself as.

/// 5.4.0's ordinal in `MQVersion`.
pub(super) const VERSION: i32 = 493;
/// Its name.
pub(super) const VERSION_NAME: &str = "V5_4_0";
