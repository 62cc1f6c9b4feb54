//! When the API server was away. Those who follow the endpoints of a Service on the nodes were cut off from it, too,
//! and try again after waits that grow: after an outage their endpoints are old for a while, and the node controller
//! may have taken the condition Ready from all pods. What the API server says then does not show who gets requests.

use std::time::Duration;

use crate::clock::Moment;

/// The longest time that the nodes may need to follow: Kubernetes' clients wait for up to 30 s, and up to as much
/// again at random.
const LONGEST: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Outage {
    #[default]
    None,
    /// The server has been away since then.
    On(Moment),
    /// It is back. The nodes have followed by then.
    Over(Moment),
}

impl Outage {
    /// The server was found to be away or not.
    pub(super) fn observe(&mut self, now: Moment, is_away: bool) {
        *self = match *self {
            Self::On(since) if !is_away => {
                // The waits have not grown beyond the outage.
                let length = now.since(since).saturating_mul(2).min(LONGEST);
                Self::Over(now.after(length))
            }
            Self::None | Self::Over(_) if is_away => Self::On(now),
            same => same,
        };
    }

    /// Until when the endpoints on the nodes may be old.
    pub(super) fn late_until(self, now: Moment) -> Option<Moment> {
        match self {
            Self::Over(at) if now < at => Some(at),
            Self::None | Self::On(_) | Self::Over(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_are_late_for_twice_the_outage_at_most_a_minute() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let late = |from, until| {
            let mut outage = Outage::default();
            outage.observe(at(1), false);
            outage.observe(at(from), true);
            outage.observe(at(from + 1), true);
            assert_eq!(outage.late_until(at(from + 1)), None);
            outage.observe(at(until), false);
            outage.observe(at(until + 1), false);
            outage.late_until(at(until + 1))
        };
        assert_eq!(late(10, 15), Some(at(25)));
        assert_eq!(late(10, 1000), Some(at(1060)));
        let mut outage = Outage::Over(at(60));
        assert_eq!(outage.late_until(at(60)), None);
        outage.observe(at(70), true);
        assert_eq!(outage.late_until(at(70)), None);
    }
}
