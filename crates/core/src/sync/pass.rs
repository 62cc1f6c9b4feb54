//! One pass over the pods: lists them part by part, and annotates those that mount one of the edited objects. Pure.
//!
//! Of the pods, only the names of those are kept that are due in the present part of the list.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::pods::{DuePod, PodsPage, Targets};
use super::throttle::Throttle;
use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::failing::Failing;
use crate::pace::Pace;

/// How many requests may be without an answer.
const MOST_IN_FLIGHT: usize = 8;
/// A pod that is refused so often is left to its kubelet.
const MOST_REFUSALS: u32 = 3;
/// After so many pods in a row that are refused, all of them are.
const MOST_REFUSED_IN_ROW: u32 = 20;

#[derive(Debug)]
pub(super) struct Pass {
    pub(super) targets: Arc<Targets>,
    step: Step,
    due: VecDeque<DuePod>,
    in_flight: usize,
    /// Nothing is sent before: the server refuses everything.
    not_before: Moment,
    /// The pods that were refused since one was annotated.
    pods_in_row: u32,
    /// Whether pods were left out, because all before them were refused.
    has_left_out: bool,
    /// Whether it repeats one in which everything was refused: then no pod counts as refused once more, or is tried twice.
    is_repeated: bool,
    has_refused: bool,
    pub(super) counts: Counts,
}

/// What a pass has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The pods of the namespace that were read.
    pub read: u64,
    /// The pods that were annotated.
    pub annotated: u64,
    /// The pods that the server does not let podnudge annotate.
    pub refused: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The next part is to be listed, with this parameter.
    List(Option<String>),
    /// With this parameter; and when it was sent.
    Listing(Option<String>, Moment),
    /// The pods of a part are annotated; then the next part, if there is one.
    Annotate(Option<String>),
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    List(Option<String>),
    Annotate(DuePod),
}

impl Pass {
    pub(super) fn new(targets: Targets, now: Moment, is_repeated: bool) -> Self {
        Self {
            targets: Arc::new(targets),
            step: Step::List(None),
            due: VecDeque::new(),
            in_flight: 0,
            not_before: now,
            pods_in_row: 0,
            has_left_out: false,
            is_repeated,
            has_refused: false,
            counts: Counts::default(),
        }
    }

    /// The request to send now, if any.
    pub(super) fn next(&mut self, now: Moment, throttle: &mut Throttle) -> Option<Next> {
        if self.next_wakeup(throttle)? > now {
            return None;
        }
        throttle.take(now);
        if let Some(pod) = self.due.pop_front() {
            self.in_flight += 1;
            return Some(Next::Annotate(pod));
        }
        let Step::List(next) = &mut self.step else { return None };
        let next = next.take();
        self.step = Step::Listing(next.clone(), now);
        Some(Next::List(next))
    }

    pub(super) fn next_wakeup(&self, throttle: &Throttle) -> Option<Moment> {
        let has_work = match &self.step {
            Step::List(_) => true,
            Step::Listing(..) => false,
            Step::Annotate(_) => !self.due.is_empty() && self.in_flight < MOST_IN_FLIGHT,
        };
        has_work.then(|| throttle.next_at().max(self.not_before))
    }

    /// Whether all pods were read, and all that were due are annotated.
    pub(super) fn is_over(&self) -> bool {
        self.step == Step::Annotate(None) && self.due.is_empty() && self.in_flight == 0
    }

    /// Whether everything was refused: either the right is missing, or all pods that are due are protected.
    pub(super) fn is_refused(&self) -> bool {
        self.has_left_out || (self.has_refused && self.counts.annotated == 0)
    }

    pub(super) fn listed(
        &mut self,
        now: Moment,
        answer: Result<PodsPage, ApiError>,
        with: &mut With<'_>,
    ) {
        let Step::Listing(next, sent) = &mut self.step else { return };
        let (next, sent) = (next.take(), *sent);
        match answer {
            Ok(page) => {
                with.succeeded();
                self.counts.read += page.read;
                self.due.extend(page.due);
                self.step = Step::Annotate(page.next);
                self.turn();
            }
            // The list is too old to go on. Those that are done are left out of the next one.
            Err(ApiError::Gone(_)) if next.is_some() => {
                self.counts.read = 0;
                self.step = Step::List(None);
            }
            Err(error) => {
                self.step = Step::List(next);
                self.failed(now, sent, &error, with);
            }
        }
    }

    pub(super) fn annotated(
        &mut self,
        now: Moment,
        (pod, sent): (DuePod, Moment),
        answer: &Result<(), ApiError>,
        with: &mut With<'_>,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match answer {
            // That the answer is odd does not undo it.
            Ok(()) | Err(ApiError::Unusable(_)) => {
                with.succeeded();
                self.pods_in_row = 0;
                *with.refused = None;
                self.counts.annotated += 1;
            }
            // It has gone.
            Err(ApiError::NotFound(_)) => with.succeeded(),
            // A right is missing, or a policy forbids it for this pod.
            Err(error @ ApiError::Refused(_)) => {
                Failing::record(with.refused, now, error);
                self.refused(pod);
            }
            Err(error) => {
                self.failed(now, sent, error, with);
                self.due.push_back(pod);
            }
        }
        self.turn();
    }

    fn refused(&mut self, mut pod: DuePod) {
        pod.refusals += 1;
        self.has_refused = true;
        self.pods_in_row += u32::from(pod.refusals == 1);
        let mut refused = 0;
        let most = if self.is_repeated { 1 } else { MOST_REFUSALS };
        if pod.refusals < most {
            self.due.push_back(pod);
        } else {
            refused += 1;
        }
        if self.pods_in_row >= MOST_REFUSED_IN_ROW {
            refused += self.due.drain(..).map(|_| 1).sum::<u64>();
            self.step = Step::Annotate(None);
            self.has_left_out = true;
        }
        self.counts.refused += if self.is_repeated { 0 } else { refused };
    }

    fn turn(&mut self) {
        if let Step::Annotate(next @ Some(_)) = &mut self.step
            && self.due.is_empty()
            && self.in_flight == 0
        {
            self.step = Step::List(next.take());
        }
    }

    fn failed(&mut self, now: Moment, sent: Moment, error: &ApiError, with: &mut With<'_>) {
        Failing::record(with.failing, now, error);
        if error.needs_a_person() {
            self.not_before = now.after(with.pace.refused());
        } else {
            with.throttle.failed(now, sent, error.retry_after());
        }
    }
}

/// What passes share.
#[derive(Debug)]
pub(super) struct With<'a> {
    pub(super) throttle: &'a mut Throttle,
    /// The waits after refusals.
    pub(super) pace: &'a mut Pace,
    pub(super) failing: &'a mut Option<Failing>,
    /// A refusal to annotate pods. Only an annotation ends it.
    pub(super) refused: &'a mut Option<Failing>,
}

impl With<'_> {
    fn succeeded(&mut self) {
        self.throttle.succeeded();
        self.pace.answered();
        *self.failing = None;
    }
}

/// When the next pass may begin: a pass that finds nothing costs as much as ten that do.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// When all passes of the past are paid for.
    free_at: Moment,
}

impl Passes {
    const BURST: Duration = Duration::from_mins(1);
    const USEFUL: Duration = Duration::from_secs(1);
    const USELESS: Duration = Duration::from_secs(10);

    pub(super) fn next(&self) -> Moment {
        Moment(self.free_at.0.saturating_sub(Self::BURST))
    }

    pub(super) fn ended(&mut self, now: Moment, counts: Counts) {
        let cost = if counts.annotated > 0 { Self::USEFUL } else { Self::USELESS };
        self.free_at = self.free_at.max(now).after(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    #[test]
    fn a_missing_right_does_not_hold_up_later_edits() {
        let mut pass = Pass::new(Targets::new(), Moment::default(), false);
        let (mut throttle, mut pace) = (Throttle::new(1000, 1), Pace::new(1));
        let (mut failing, mut refused) = (None, None);
        let mut now = Moment(Duration::from_secs(1));
        let due =
            (0..300).map(|n| DuePod { name: n.to_string(), value: "x".to_owned(), refusals: 0 });
        let mut first =
            Some(PodsPage { due: due.collect(), read: 300, next: Some("more".to_owned()) });
        let mut requests = 0;
        while !pass.is_over() {
            let next = pass.next(now, &mut throttle);
            let mut with = With {
                throttle: &mut throttle,
                pace: &mut pace,
                failing: &mut failing,
                refused: &mut refused,
            };
            match next {
                Some(Next::List(_)) => {
                    pass.listed(now, Ok(first.take().expect("one page")), &mut with);
                }
                Some(Next::Annotate(pod)) => {
                    requests += 1;
                    let refused = Err(ApiError::Refused(Reason::new("403")));
                    pass.annotated(now, (pod, now), &refused, &mut with);
                }
                None => now = pass.next_wakeup(&throttle).expect("it goes on"),
            }
        }
        assert_eq!((requests, pass.counts.refused, pass.counts.annotated), (20, 300, 0));
        assert!(refused.is_some_and(|failing| failing.problem(now).is_some()));
    }

    #[test]
    fn no_more_than_eight_requests_wait_for_an_answer() {
        let mut pass = Pass::new(Targets::new(), Moment::default(), false);
        let (mut throttle, mut pace) = (Throttle::new(1000, 1), Pace::new(1));
        let (mut failing, mut refused) = (None, None);
        let due =
            (0..30).map(|n| DuePod { name: n.to_string(), value: "x".to_owned(), refusals: 0 });
        let mut first = Some(PodsPage { due: due.collect(), read: 30, next: None });
        let (mut now, mut waiting) = (Moment(Duration::from_secs(1)), Vec::new());
        while !pass.is_over() {
            let next = pass.next(now, &mut throttle);
            let mut with = With {
                throttle: &mut throttle,
                pace: &mut pace,
                failing: &mut failing,
                refused: &mut refused,
            };
            match (next, pass.next_wakeup(with.throttle)) {
                (Some(Next::List(_)), _) => {
                    pass.listed(now, Ok(first.take().expect("one page")), &mut with);
                }
                (Some(Next::Annotate(pod)), _) => waiting.push((pod, now)),
                (None, Some(at)) => now = at,
                // Only an answer lets it go on.
                (None, None) => {
                    let left = 30 - usize::try_from(pass.counts.annotated).unwrap();
                    assert_eq!(waiting.len(), left.min(8));
                    pass.annotated(now, waiting.remove(0), &Ok(()), &mut with);
                }
            }
        }
        assert_eq!(pass.counts.annotated, 30);
    }
}
