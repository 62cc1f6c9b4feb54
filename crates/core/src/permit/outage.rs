//! When the API server was away. Those who follow the endpoints of a Service on the nodes were cut off from it, too,
//! and try again after waits that grow: after an outage their endpoints are old for a while, and the node controller
//! may have taken the condition Ready from all pods. What the API server says then does not show who gets requests.

use std::time::Duration;

use crate::clock::Moment;
use crate::event::ApiServer;

/// The longest time that the nodes may need to follow: Kubernetes' clients wait for up to 30 s, and up to as much
/// again at random.
const LONGEST: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outage {
    /// When the server has answered last. It may have been away since.
    answered: Moment,
    step: Phase,
}

#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    #[default]
    None,
    /// The server is away, perhaps since then.
    On(Moment),
    /// The server is back. The nodes have followed by then.
    Over(Moment),
}

impl Outage {
    /// The server was found so.
    pub(super) fn observe(&mut self, now: Moment, server: ApiServer) {
        match (server, self.step) {
            (ApiServer::Away, Phase::None | Phase::Over(_)) => self.step = Phase::On(self.answered),
            (ApiServer::Away, Phase::On(_)) => {}
            (ApiServer::Answers, step) => {
                self.answered = now;
                if let Phase::On(since) = step {
                    // The waits have not grown beyond the outage.
                    let length = now.since(since).saturating_mul(2).min(LONGEST);
                    self.step = Phase::Over(now.after(length));
                }
            }
        }
    }

    /// Until when the endpoints on the nodes may be old.
    pub(super) fn late_until(self, now: Moment) -> Option<Moment> {
        match self.step {
            Phase::Over(at) if now < at => Some(at),
            Phase::None | Phase::On(_) | Phase::Over(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    /// Until when the nodes are late, if the server answered at the first of these times, was away at the second, and
    /// answered again at the third.
    fn late_until(answered: u64, away: u64, back: u64) -> Option<Moment> {
        let mut outage = Outage::default();
        outage.observe(at(answered), ApiServer::Answers);
        outage.observe(at(away), ApiServer::Away);
        outage.observe(at(away + 1), ApiServer::Away);
        assert_eq!(outage.late_until(at(away + 1)), None);
        outage.observe(at(back), ApiServer::Answers);
        outage.observe(at(back + 1), ApiServer::Answers);
        outage.late_until(at(back + 1))
    }

    #[test]
    fn the_nodes_are_late_for_twice_the_outage_at_most_a_minute() {
        assert_eq!(late_until(10, 10, 15), Some(at(25)));
        assert_eq!(late_until(10, 10, 1000), Some(at(1060)));
        // It may have begun just after the last answer.
        assert_eq!(late_until(10, 20, 25), Some(at(55)));
        assert_eq!(late_until(10, 1000, 1005), Some(at(1065)));
    }

    #[test]
    fn an_outage_that_goes_on_or_is_long_over_makes_nobody_late() {
        let mut outage = Outage::default();
        outage.observe(at(10), ApiServer::Answers);
        assert_eq!(outage.late_until(at(10)), None);
        outage.observe(at(20), ApiServer::Away);
        outage.observe(at(30), ApiServer::Answers);
        assert_eq!((outage.late_until(at(69)), outage.late_until(at(70))), (Some(at(70)), None));
        outage.observe(at(40), ApiServer::Away);
        assert_eq!(outage.late_until(at(40)), None);
    }
}
