//! Spans of time of several replicas: how many overlap.

use std::time::Duration;

/// A span of time: from, until.
pub type Span = (Duration, Duration);

/// The spans without overlaps, sorted.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, until) in spans.into_iter().filter(|(from, until)| from < until) {
        match merged.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(until),
            None => merged.push((from, until)),
        }
    }
    merged
}

/// The changes of the number of spans that overlap: since when, and how many.
pub(super) fn steps(spans: &[Span]) -> Vec<(Duration, u32)> {
    // An end comes before a begin at the same time.
    let edges = |(from, until): &Span| [(*until, false), (*from, true)];
    let mut edges: Vec<(Duration, bool)> = spans.iter().flat_map(edges).collect();
    edges.sort_unstable();
    let mut count: u32 = 0;
    let mut steps: Vec<(Duration, u32)> = Vec::new();
    for (at, begins) in edges {
        count = if begins { count.saturating_add(1) } else { count.saturating_sub(1) };
        match steps.last_mut().filter(|last| last.0 == at) {
            Some(last) => last.1 = count,
            None => steps.push((at, count)),
        }
    }
    steps
}

/// The greatest number of spans that overlap. A span that ends when another begins does not overlap it.
#[must_use]
pub fn greatest(spans: &[Span]) -> u32 {
    steps(spans).iter().map(|(_, count)| *count).max().unwrap_or(0)
}

/// How long more than `most` spans overlap.
pub(super) fn time_above(spans: &[Span], most: u32) -> Duration {
    let steps = steps(spans);
    let next = steps.iter().skip(1);
    let pairs = steps.iter().zip(next).filter(|((_, count), _)| *count > most);
    pairs.map(|((from, _), (until, _))| until.saturating_sub(*from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(seconds: &[(u64, u64)]) -> Vec<Span> {
        let second = Duration::from_secs;
        seconds.iter().map(|(from, until)| (second(*from), second(*until))).collect()
    }

    #[test]
    fn a_span_that_ends_when_another_begins_does_not_overlap_it() {
        assert_eq!(greatest(&spans(&[(0, 2), (2, 4), (4, 6)])), 1);
        assert_eq!(greatest(&spans(&[(0, 3), (2, 5), (4, 6)])), 2);
        assert_eq!(greatest(&spans(&[(0, 9), (1, 9), (2, 3), (4, 5)])), 3);
        assert_eq!(greatest(&[]), 0);
    }

    #[test]
    fn time_above_a_number_is_the_sum_of_all_such_times() {
        let spans = spans(&[(0, 3), (2, 5), (4, 6), (10, 11)]);
        assert_eq!(time_above(&spans, 1), Duration::from_secs(2));
        assert_eq!(time_above(&spans, 0), Duration::from_secs(7));
        assert_eq!(time_above(&spans, 2), Duration::ZERO);
    }

    #[test]
    fn merged_spans_do_not_overlap() {
        assert_eq!(merged(spans(&[(4, 6), (0, 3), (2, 4), (8, 8)])), spans(&[(0, 6)]));
    }
}
