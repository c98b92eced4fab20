#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::broker_documents::run(data));
