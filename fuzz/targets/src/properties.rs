//! The property block of a message.

use format::properties::{NAME_END, Search, VALUE_END, append, find, iterate, names, without};

use crate::taker::Taker;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(block: &[u8]) -> Pairs {
    iterate(block).map(|property| (property.name.to_vec(), property.value.to_vec())).collect()
}

/// Places lie within the block and in order; appending adds one property, if it is one, and dropping drops exactly those named.
pub fn run(data: &[u8]) {
    let mut taker = Taker::new(data);
    let name_size = usize::from(taker.byte() % 16);
    // Nobody looks for a property without a name.
    let name = Some(text_of(taker.slice(name_size))).filter(|name| !name.is_empty()).unwrap_or_else(|| "n".to_owned());
    let value_size = usize::from(taker.byte() % 32);
    let value = text_of(taker.slice(value_size));
    let block = taker.all();
    // A value of no bytes makes none.
    let is_property = !value.is_empty();
    let mut reached = 0;
    for property in iterate(block) {
        assert!(reached <= property.start && property.start < property.end && property.end <= block.len());
        let place = &block[property.start..property.end];
        let expected = [property.name, &[NAME_END], property.value].concat();
        assert_eq!(place.strip_suffix(&[VALUE_END]).unwrap_or(place), expected);
        reached = property.end;
    }
    let before = pairs(block);
    for name in [&name, names::TAGS] {
        let last = before.iter().rfind(|(other, _)| other == name.as_bytes());
        assert_eq!(find(block, name), last.and_then(|(_, value)| std::str::from_utf8(value).ok()));
    }
    assert_eq!(Search::new(names::TAGS).find(block), find(block, names::TAGS));
    assert_eq!(pairs(&without(block, &[])), before);
    let kept: Pairs = before.iter().filter(|(other, _)| other != name.as_bytes()).cloned().collect();
    let dropped = without(block, &[&name]);
    assert_eq!(pairs(&dropped), kept);
    assert_eq!(find(&dropped, &name), None);
    for block in [block, &dropped] {
        let mut longer = block.to_vec();
        append(&mut longer, &name, &value);
        assert!(longer.starts_with(block));
        let mut expected = pairs(block);
        if is_property {
            expected.push((name.clone().into_bytes(), value.clone().into_bytes()));
        }
        assert_eq!(pairs(&longer), expected);
    }
    let mut longer = dropped;
    append(&mut longer, &name, &value);
    assert_eq!(find(&longer, &name), is_property.then_some(value.as_str()));
}

/// Text that may stand in a block.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\u{1}', '\u{2}'], "")
}

/// Blocks of old and new clients.
pub fn seeds() -> Vec<Vec<u8>> {
    let blocks = [
        &b""[..],
        b"\x04WAIT\x04trueTAGS\x01A\x02WAIT\x01true\x02KEYS\x01k1 k2",
        b"\x01a\x011a\x011\x02junk\x02\x02b\x01\x02a\x012\x01\x01",
        b"\x03\xFF\xFF\xFF\x00\xFF\x01\xFF\x02",
    ];
    blocks.iter().map(|block| block.to_vec()).collect()
}
