//! Detects new child processes: a master that has read its configuration starts new workers.
//!
//! Reads `/proc`. A start time alone is not enough: it has a resolution of one clock tick (10 ms),
//! and a master may start a worker within the tick of its signal. So a child is new if it was not
//! in the earlier list and did not start in an earlier tick. A process that only became a child
//! since then, because its own parent ended, is not new.

use std::time::Duration;

use super::{Identity, proc};
use crate::clock::Moment;
use crate::reason::Reason;

/// The child processes that some processes had at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The children at that moment.
    old: Vec<Identity>,
    at: Moment,
}

/// The pid of the parent, and the child.
type Child = (i32, Identity);

impl Children {
    /// No children: every child counts as new.
    #[must_use]
    pub fn empty() -> Self {
        Self { old: Vec::new(), at: Moment::default() }
    }

    /// Lists the current children.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn list(parents: &[Identity]) -> Result<Self, Reason> {
        let old = read(parents)?.into_iter().map(|(_, child)| child).collect();
        // After the listing: a child that starts during it is either listed, or started in a later
        // tick.
        Ok(Self { old, at: proc::now() })
    }

    /// Checks that each of these processes has a new child that has run for this long: a master also
    /// starts workers that end because of the new content, and starts them again and again.
    ///
    /// # Errors
    /// If one has no such child, or if `/proc` cannot be read.
    pub fn check_new_children(
        &self,
        parents: &[Identity],
        alive_for: Duration,
    ) -> Result<(), Reason> {
        if parents.is_empty() {
            return Err(Reason::new("the process that was signalled is gone"));
        }
        let children = read(parents)?;
        match self.first_without_new_child(parents, &children) {
            None => {}
            Some((parent, 0)) => {
                let reason = Reason::new(format!("process {parent} has no child process"));
                let hint = "`children-newer` is for masters that start workers, such as nginx";
                return Err(reason.hint(hint));
            }
            Some((parent, older)) => {
                return Err(Reason::new(format!(
                    "process {parent} has no new child process since the signal; older ones: {older}"
                )));
            }
        }
        let has_survived = |(_, child): &Child| proc::age(*child) >= alive_for;
        let survivors: Vec<Child> = children.into_iter().filter(has_survived).collect();
        match self.first_without_new_child(parents, &survivors) {
            None => Ok(()),
            Some((parent, _)) => {
                let wanted = humantime::format_duration(alive_for);
                Err(Reason::new(format!(
                    "no new child process of process {parent} has run for {wanted} yet"
                )))
            }
        }
    }

    /// The first process without a new child, and how many children it has. Pure.
    fn first_without_new_child(&self, parents: &[Identity], now: &[Child]) -> Option<(i32, usize)> {
        let is_new =
            |child: Identity| !self.old.contains(&child) && child.may_have_started_after(self.at);
        parents.iter().find_map(|parent| {
            let mut children =
                now.iter().filter(|(of, _)| *of == parent.pid).map(|(_, child)| *child);
            let number = children.clone().count();
            if children.any(is_new) { None } else { Some((parent.pid, number)) }
        })
    }
}

/// Lists the children of these processes, without zombies.
fn read(parents: &[Identity]) -> Result<Vec<Child>, Reason> {
    let mut children = Vec::new();
    for pid in proc::all_pids().map_err(|error| error.reason())? {
        let Some(stat) = proc::stat(pid)? else { continue };
        if !stat.is_dead && parents.iter().any(|parent| parent.pid == stat.parent) {
            children.push((stat.parent, Identity { pid, start_ticks: stat.start_ticks }));
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn child(pid: i32, start_ticks: u64) -> Identity {
        Identity { pid, start_ticks }
    }

    const MASTERS: [Identity; 2] = [child(10, 50), child(20, 50)];

    /// The masters have a worker each, and the signal comes in the middle of tick 500.
    fn before() -> Children {
        let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap();
        let at = Moment(Duration::from_secs(1) * 1001 / (2 * ticks));
        Children { old: vec![child(11, 100), child(21, 500)], at }
    }

    #[test]
    fn a_child_is_new_if_it_was_not_there_and_did_not_start_in_an_earlier_tick() {
        let both =
            |one, other| before().first_without_new_child(&MASTERS, &[(10, one), (20, other)]);
        assert_eq!(both(child(12, 501), child(22, 501)), None);
        assert_eq!(both(child(12, 500), child(22, 500)), None, "in the tick of the signal");
        assert_eq!(both(child(12, 501), child(21, 500)), Some((20, 1)), "in its tick, before it");
        assert_eq!(both(child(5, 499), child(22, 501)), Some((10, 1)), "adopted");
        assert_eq!(both(child(11, 501), child(22, 501)), None, "its pid is used again");
    }

    #[test]
    fn each_process_needs_a_new_child_of_its_own() {
        assert_eq!(before().first_without_new_child(&MASTERS, &[]), Some((10, 0)));
        let now = [(10, child(11, 100)), (10, child(12, 600)), (10, child(13, 600))];
        assert_eq!(before().first_without_new_child(&MASTERS, &now), Some((20, 0)));
        let now = [(10, child(12, 600)), (20, child(21, 500)), (20, child(23, 400))];
        assert_eq!(before().first_without_new_child(&MASTERS, &now), Some((20, 2)));
    }
}
