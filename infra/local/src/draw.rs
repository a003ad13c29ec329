//! Repeatable chance: the same seed gives the same draws.

/// The `n`-th number of a stream of a seed.
pub(crate) fn number(seed: u64, stream: u64, n: u64) -> u64 {
    mixed(mixed(seed ^ mixed(stream)).wrapping_add(n))
}

/// SplitMix64's output function (<https://prng.di.unimi.it/splitmix64.c>): neighbouring numbers in, unrelated ones
/// out.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether a drawn number is among `percent` of all, 0 to 100; more counts as 100.
pub(crate) fn is_among(drawn: u64, percent: u8) -> bool {
    drawn % 100 < u64::from(percent)
}
