//! Makes a failing input smaller.

/// The most attempts.
const ATTEMPTS: usize = 3000;

/// A smaller input that fails, too. `fails` may refuse to try any more, by `false`.
pub(crate) fn shrink(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut attempts = 0;
    let mut length = best.len().div_ceil(2);
    while length > 0 && attempts < ATTEMPTS {
        let (mut at, mut is_shorter) = (0, false);
        while at < best.len() && attempts < ATTEMPTS {
            attempts += 1;
            let end = (at + length).min(best.len());
            let without = [&best[..at], &best[end..]].concat();
            if fails(&without) {
                (best, is_shorter) = (without, true);
            } else {
                at = end;
            }
        }
        if !is_shorter || length > 1 {
            length /= 2;
        }
    }
    // Plain letters say which bytes matter.
    for at in 0..best.len().min(ATTEMPTS) {
        let mut plain = best.clone();
        plain[at] = b'a';
        if best[at] != b'a' && fails(&plain) {
            best = plain;
        }
    }
    best
}
