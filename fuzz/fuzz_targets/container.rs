#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| glassline_fuzz::container(data));
