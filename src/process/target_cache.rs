//! Caches the target of each rule, so that the next action need not search all of `/proc` first: it
//! checks that this one process is unchanged, and searches for others afterwards.
//!
//! Reads `/proc/PID` of the one process; changes nothing. Only a target of exactly one process is
//! cached. Its pidfd is kept open (`pin.rs`): it shows whether the process has ended and its pid was reused.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pin::Pin;
use super::proc;
use super::select::{COMM_LENGTH, Process};
use super::{ProcessState, process_state, texts};
use podnudge_config::{Rule, Target, TargetBy};
use podnudge_core::reason::Reason;

/// Each rule's name and its target.
#[derive(Debug, Default)]
pub(super) struct TargetCache(Mutex<Vec<(String, Process, Pin)>>);

impl TargetCache {
    /// Stores the result of a search. Anything but exactly one process empties the rule's entry.
    pub(super) fn store(&self, rule: &Rule, found: Option<&[&Process]>) {
        let kept = match found {
            Some([process]) if !rule.settings.target.all => {
                with_arguments(process, &rule.settings.target)
            }
            _ => None,
        };
        self.take(rule);
        let pinned = kept.and_then(|process| Some((Pin::open(process.identity).ok()?, process)));
        self.all().extend(pinned.map(|(pin, process)| (rule.name.clone(), process, pin)));
    }

    /// Removes and returns the rule's target, if it still runs and matches the rule as before. Its
    /// container and mounts are not compared: they only change with the process.
    pub(super) fn take_unchanged(&self, rule: &Rule) -> Option<(Process, Pin)> {
        let (process, mut pin) = self.take(rule)?;
        // Without a readable `/proc` entry it cannot be called unchanged.
        let is_same = is_unchanged(&process, &mut pin, &rule.settings.target).unwrap_or(false);
        is_same.then_some((process, pin))
    }

    pub(super) fn forget_all(&self) {
        self.all().clear();
    }

    fn take(&self, rule: &Rule) -> Option<(Process, Pin)> {
        let mut all = self.all();
        let place = all.iter().position(|(name, ..)| *name == rule.name)?;
        let (_, process, pin) = all.swap_remove(place);
        Some((process, pin))
    }

    fn all(&self) -> MutexGuard<'_, Vec<(String, Process, Pin)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the name of the process, which the kernel sets on exec, identifies its program.
/// Otherwise its arguments are compared, too.
fn name_identifies_program(by: &TargetBy) -> bool {
    match by {
        TargetBy::Process(name) => name.len() <= COMM_LENGTH,
        // The pidfile identifies it.
        TargetBy::Pidfile(_) => true,
        TargetBy::Mount | TargetBy::Exe(_) | TargetBy::Cmdline(_) => false,
    }
}

/// `None` if it has ended or cannot be read.
fn with_arguments(process: &Process, target: &Target) -> Option<Process> {
    let mut process = process.clone();
    if !name_identifies_program(&target.by) {
        process.arguments = proc::arguments(process.identity.pid).ok()?;
    }
    Some(process)
}

fn is_unchanged(process: &Process, pin: &mut Pin, target: &Target) -> Result<bool, Reason> {
    let pid = process.identity.pid;
    let Some(status) = pin.read_status(pid)? else { return Ok(false) };
    // Looked at after the reading, so that it is the status of this process and not of one with the same pid.
    let still_runs = match pin.look() {
        Some((_, has_ended)) => !has_ended,
        None => process_state(process.identity) == ProcessState::Running,
    };
    let is_same = still_runs
        && texts::parse_name(&status) == process.comm
        && texts::parse_parent(&status) == Some(process.parent)
        && (target.uid.is_none() || texts::parse_uid(&status) == process.uid);
    if !is_same || (process.exe.is_some() && proc::exe(pid) != process.exe) {
        return Ok(false);
    }
    Ok(name_identifies_program(&target.by) || proc::arguments(pid)? == process.arguments)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::process::Identity;
    use crate::process::select::Mounts;
    use crate::process::select::in_pod::Pod;
    use podnudge_config as config;

    /// A rule with this target setting.
    fn rule(target: &str) -> Rule {
        let text = format!(
            "[[rule]]\nname = \"app\"\nwatch = \"/etc/app\"\nsignal = {{ name = \"HUP\" }}\n\
             target = {{ {target} }}\n"
        );
        let parsed = config::parse("test", &text, &config::Overrides::default(), None);
        let (mut config, _) = parsed.expect("it is a configuration");
        config.rules.remove(0)
    }

    /// A running process, as a search finds it.
    fn running() -> (Child, Process) {
        let child = Command::new("sleep").arg("1000").spawn().expect("it can be started");
        let pid = i32::try_from(child.id()).expect("it is a pid");
        let stat = loop {
            let stat = proc::stat(pid).expect("it can be read").expect("it runs");
            // The kernel changes the name in an exec before the arguments.
            let arguments = proc::arguments(pid).expect("they can be read");
            if stat.comm == "sleep" && arguments == ["sleep", "1000"] {
                break stat;
            }
        };
        let process = Process {
            identity: Identity { pid, start_ticks: stat.start_ticks },
            parent: stat.parent,
            comm: stat.comm,
            arguments: Vec::new(),
            exe: None,
            uid: None,
            container: String::new(),
            pod: Pod::Own,
            mounts: Mounts::No,
        };
        (child, process)
    }

    #[test]
    fn a_target_is_cached_until_it_is_taken_forgotten_or_ends() {
        let (mut child, process) = running();
        for target in ["process = \"sleep\"", "cmdline = \"1000\"", "pidfile = \"/run/app.pid\""] {
            let (cache, rule) = (TargetCache::default(), rule(target));
            assert_eq!(cache.take_unchanged(&rule), None);
            cache.store(&rule, Some(&[&process]));
            let (taken, pin) = cache.take_unchanged(&rule).expect("it is unchanged");
            assert!(matches!(pin.look(), Some((_, false))));
            assert_eq!(taken.identity, process.identity);
            assert_eq!(cache.take_unchanged(&rule), None, "a taken target is no longer cached");
            cache.store(&rule, Some(&[&process]));
            cache.forget_all();
            assert_eq!(cache.take_unchanged(&rule), None);
            cache.store(&rule, Some(&[&process]));
            cache.store(&rule, None);
            assert_eq!(cache.take_unchanged(&rule), None);
        }
        let (cache, rule) = (TargetCache::default(), rule("process = \"sleep\""));
        cache.store(&rule, Some(&[&process]));
        child.kill().expect("it can be killed");
        child.wait().expect("it can be reaped");
        assert_eq!(cache.take_unchanged(&rule), None);
    }

    #[test]
    fn a_process_that_differs_from_the_cached_one_is_not_the_target() {
        let (mut child, process) = running();
        let by_arguments = rule("cmdline = \"1000\", uid = 0");
        let found = Process {
            uid: Some(0),
            ..with_arguments(&process, &by_arguments.settings.target).expect("it runs")
        };
        let mut pin = Pin::open(found.identity).expect("it runs");
        let compare = |process: &Process, pin: Option<&mut Pin>| {
            let target = &by_arguments.settings.target;
            is_unchanged(process, pin.unwrap_or(&mut Pin::default()), target)
        };
        assert_eq!(compare(&found, Some(&mut pin)), Ok(true));
        assert_eq!(compare(&found, None), Ok(true));
        let identity = Identity { start_ticks: 1, ..found.identity };
        assert_eq!(compare(&Process { identity, ..found.clone() }, None), Ok(false));
        for changed in [
            Process { parent: 1, ..found.clone() },
            Process { comm: "app".to_owned(), ..found.clone() },
            Process { arguments: vec!["sleep".to_owned()], ..found.clone() },
            Process { exe: Some("/bin/app".into()), ..found.clone() },
            Process { uid: Some(101), ..found.clone() },
        ] {
            assert_eq!(compare(&changed, Some(&mut pin)), Ok(false), "{changed:?}");
            assert_eq!(compare(&changed, None), Ok(false), "{changed:?}");
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it can be reaped");
    }

    #[test]
    fn several_targets_are_not_cached() {
        let (mut child, process) = running();
        let cache = TargetCache::default();
        for (rule, found) in [
            (rule("process = \"sleep\", all = true"), vec![&process]),
            (rule("process = \"sleep\""), vec![&process, &process]),
        ] {
            cache.store(&rule, Some(&found));
            assert_eq!(cache.take_unchanged(&rule), None);
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it can be reaped");
    }
}
