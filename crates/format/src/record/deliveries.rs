//! How often a record was consumed in vain, read and changed where it is encoded.

use super::{BORN_HOST_AT, SYSTEM_FLAG_AT, host_size, system_flag};

/// Where an encoded record says how often it was consumed in vain.
fn deliveries_at(record: &[u8]) -> Option<usize> {
    let flags = i32::from(*record.get(SYSTEM_FLAG_AT + 3)?);
    let [born, store] =
        [system_flag::BORN_HOST_V6, system_flag::STORE_HOST_V6].map(|flag| host_size(flags & flag != 0));
    Some(BORN_HOST_AT + born + 8 + store)
}

/// How often an encoded record says that it was consumed in vain; 0 where it is too short, or says less.
pub fn deliveries_of(record: &[u8]) -> u32 {
    let field = deliveries_at(record).and_then(|at| record.get(at..at + 4)?.try_into().ok());
    field.map_or(0, |field| u32::try_from(i32::from_be_bytes(field)).unwrap_or_default())
}

/// Has an encoded record say that it was consumed in vain so many times more. `record` may be longer than it; nothing happens where it is
/// shorter.
pub fn add_deliveries(record: &mut [u8], more: u32) {
    let count = i32::try_from(deliveries_of(record).saturating_add(more)).unwrap_or(i32::MAX);
    if let Some(field) = deliveries_at(record).and_then(|at| record.get_mut(at..at + 4)) {
        field.copy_from_slice(&count.to_be_bytes());
    }
}
