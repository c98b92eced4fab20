//! Protocol-free meaning: catalog, publish, fetch, offsets, groups, retry, delay.
