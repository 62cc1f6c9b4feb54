//! Detects new child processes: a master that has read its configuration starts new workers.
//!
//! Reads `/proc`. A start time alone is not enough: it has a resolution of one clock tick (10 ms),
//! and a master may start a worker within the tick of its signal. So a child is new if it was not
//! in the earlier list and did not start in an earlier tick. A process that only became a child
//! since then, because its own parent ended, is not new.
//!
//! A master also starts a worker again that has ended, with the configuration that it has. nginx does so after it
//! has rejected the content, and its preset says so: a proof is only that more children run at one moment than
//! before, as it starts the new ones before the old ones end. Of a program without a preset, all children must be
//! replaced. The other masters end with broken content, or start nothing again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Identity, proc};
use podnudge_config::Preset;
use podnudge_core::clock::Moment;
use podnudge_core::reason::Reason;

/// The child processes that some processes had at one moment.
#[derive(Debug)]
pub struct Children {
    /// The children at that moment.
    old: Vec<Child>,
    at: Moment,
    needs: Replacement,
    /// Whether a look has found what is needed. The old children of that moment end later.
    is_replaced: AtomicBool,
}

/// The pid of the parent, and the child.
type Child = (i32, Identity);

/// Which new children show that a master has read its configuration anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Replacement {
    /// Any new children.
    Any,
    /// New children that run beside the old ones, or after all of the old ones have ended.
    All,
    /// New children that run beside the old ones. All of several old ones do not end by chance.
    Beside,
}

impl Children {
    /// No children: every child counts as new.
    #[must_use]
    pub fn empty() -> Self {
        Self::of(Vec::new(), Moment::default(), Replacement::Any)
    }

    fn of(old: Vec<Child>, at: Moment, needs: Replacement) -> Self {
        Self { old, at, needs, is_replaced: AtomicBool::new(false) }
    }

    /// Lists the current children.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn list(parents: &[Identity]) -> Result<Self, Reason> {
        let mut needs = Replacement::Any;
        for parent in parents {
            let program = proc::stat(parent.pid)?.map(|stat| stat.comm).unwrap_or_default();
            needs = needs.max(Replacement::of_program(&program));
        }
        let old = read(parents)?;
        // After the listing: a child that starts during it is either listed, or started in a later
        // tick.
        Ok(Self::of(old, proc::now(), needs))
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
        if let Some(parent) = self.first_unreplaced(parents, &children) {
            return Err(Reason::new(format!(
                "process {parent} has started a child process again that had ended, and has not replaced all of them"
            )));
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
        parents.iter().find_map(|parent| {
            let (new, others) = self.count(*parent, now);
            (new == 0).then_some((parent.pid, others))
        })
    }

    /// The first process whose children are not replaced, as far as this and earlier looks show. Pure.
    fn first_unreplaced(&self, parents: &[Identity], now: &[Child]) -> Option<i32> {
        if self.is_replaced.load(Ordering::Relaxed) {
            return None;
        }
        let is_replaced = |parent: &&Identity| {
            let before = self.old.iter().filter(|(of, _)| *of == parent.pid).count();
            let (new, others) = self.count(**parent, now);
            let has_ended = |old: &Child| !now.contains(old);
            let all_ended = self.old.iter().filter(|(of, _)| *of == parent.pid).all(has_ended);
            match self.needs {
                Replacement::Any => true,
                Replacement::All => new + others > before || all_ended,
                Replacement::Beside => new + others > before || (all_ended && before != 1),
            }
        };
        let unreplaced = parents.iter().find(|parent| !is_replaced(parent));
        self.is_replaced.store(unreplaced.is_none(), Ordering::Relaxed);
        unreplaced.map(|parent| parent.pid)
    }

    /// The new children of a process, and the others.
    fn count(&self, parent: Identity, now: &[Child]) -> (usize, usize) {
        let is_new =
            |child: &&Child| !self.old.contains(child) && child.1.may_have_started_after(self.at);
        let of_parent = now.iter().filter(|(of, _)| *of == parent.pid);
        let new = of_parent.clone().filter(is_new).count();
        (new, of_parent.count() - new)
    }
}

impl Replacement {
    fn of_program(program: &str) -> Self {
        match Preset::of_program(program) {
            None => Self::All,
            Some(preset) if preset.starts_again => Self::Beside,
            Some(_) => Self::Any,
        }
    }
}

/// Lists the children of these processes, without zombies.
fn read(parents: &[Identity]) -> Result<Vec<Child>, Reason> {
    let mut children = Vec::new();
    for pid in proc::all_pids()? {
        let Some(stat) = proc::stat(pid)? else { continue };
        if !stat.is_dead() && parents.iter().any(|parent| parent.pid == stat.parent) {
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
        Children::of(vec![(10, child(11, 100)), (20, child(21, 500))], at, Replacement::Any)
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

    /// What the looks at one master after another find.
    fn looks(needs: Replacement, old: &[i32], looks: &[&[i32]]) -> Vec<bool> {
        let of = |pids: &[i32]| -> Vec<Child> {
            pids.iter().map(|pid| (10, child(*pid, if *pid < 20 { 100 } else { 900 }))).collect()
        };
        let children = Children::of(of(old), before().at, needs);
        let look = |pids: &&[i32]| children.first_unreplaced(&MASTERS[..1], &of(pids)).is_none();
        looks.iter().map(look).collect()
    }

    #[test]
    fn a_worker_that_is_started_again_after_its_end_proves_no_reload() {
        use Replacement::{All, Any, Beside};
        // One of two workers ends, and another one is started; then the second one, too.
        let one_by_one: &[&[i32]] = &[&[11, 12], &[11, 21], &[22, 21]];
        assert_eq!(looks(Beside, &[11, 12], &one_by_one[..2]), [false, false]);
        assert_eq!(looks(All, &[11, 12], one_by_one), [false, false, true], "one after the other");
        assert_eq!(looks(Any, &[11, 12], &one_by_one[1..2]), [true]);
        // The only one.
        assert_eq!(looks(Beside, &[11], &[&[11], &[], &[21]]), [false, false, false]);
        assert_eq!(looks(All, &[11], &[&[11], &[21]]), [false, true]);
    }

    #[test]
    fn new_workers_beside_the_old_ones_prove_a_reload_after_these_have_ended() {
        for needs in [Replacement::All, Replacement::Beside] {
            assert_eq!(looks(needs, &[11], &[&[11], &[11, 21], &[21]]), [false, true, true]);
            assert_eq!(looks(needs, &[11, 12], &[&[11, 21, 22]]), [true], "one ended at once");
            assert_eq!(looks(needs, &[11, 12], &[&[21, 22]]), [true], "between two looks");
            assert_eq!(looks(needs, &[], &[&[21]]), [true], "it had none");
        }
    }
}
