//! Java's `String.hashCode`, on which tag codes and key-index slots are built.

/// `String.hashCode` of `text`: over UTF-16 units, wrapping.
pub fn java_string_hash(text: &str) -> i32 {
    java_string_hash_from(0, text)
}

/// Goes on with `hash` over `text`, so that `a#b` can be hashed without joining the pieces.
pub fn java_string_hash_from(hash: i32, text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    }
    text.encode_utf16().fold(hash, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The code a queue entry keeps of a message's tag: 0 for no tag (source: RocketMQ ConsumeQueue entry).
pub fn tag_code(tag: &str) -> i64 {
    if tag.is_empty() { 0 } else { i64::from(java_string_hash(tag)) }
}

/// Hash of `topic#key` in the key index: never negative (source: RocketMQ IndexFile).
pub fn key_hash(topic: &str, key: &str) -> u32 {
    let hash = java_string_hash_from(java_string_hash_from(java_string_hash(topic), "#"), key);
    hash.checked_abs().unwrap_or(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("TagA"), 2_598_919);
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_string_hash("日本"), 835_047);
        assert_eq!(key_hash("a", "b"), java_string_hash("a#b").unsigned_abs());
    }
}
