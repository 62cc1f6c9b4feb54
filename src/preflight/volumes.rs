//! The volumes of a rule as they are mounted in podnudge's and in the target's container.

use crate::process::{Context, TargetProcess, View, view_of};
use crate::volume::mounts;
use podnudge_config::Rule;
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// A subPath mount in podnudge's container, also below a watched path, or in the target's: it never
/// changes.
pub(super) fn subpath(rule: &Rule, targets: &[TargetProcess]) -> Option<Problem> {
    let own = rule.settings.watch.iter().find_map(|path| mounts::subpath_warning(path));
    let reason = own.or_else(|| targets.iter().find_map(|target| subpath_of(rule, target)))?;
    Some(Problem::new(ProblemKind::Subpath, reason))
}

fn subpath_of(rule: &Rule, target: &TargetProcess) -> Option<Reason> {
    let path = rule.read_by_application().iter().find_map(|volume| {
        match view_of(target.identity, std::slice::from_ref(volume))? {
            View::SubPath(path) => Some(path),
            View::Mounted | View::Nothing => None,
        }
    })?;
    let (target, path) = (&target.name, shown::path(&path));
    let message = format!(
        "process {target} mounts the volume by subPath at `{path}`, where it never changes"
    );
    let hint = "mount the whole volume into the application's container, without subPath";
    Some(Reason::new(message).hint(hint))
}

/// The target mounts nothing of what it is to read: the watched volumes, on a signal, a request or at its start, or
/// the directory to which podnudge publishes.
pub(super) fn not_mounted(rule: &Rule, targets: &[TargetProcess]) -> Option<Problem> {
    let publish = rule.settings.publish.as_ref();
    if publish.is_none() && !rule.is_read_by_application() {
        return None;
    }
    let is_blind = |target: &&TargetProcess| {
        view_of(target.identity, rule.read_by_application()) == Some(View::Nothing)
    };
    let target = &targets.iter().find(is_blind)?.name;
    let Some(publish) = publish else {
        let message = format!("process {target} does not mount the watched volume");
        let hint = "mount the same volume in the application's container, or publish to a directory that \
                    it mounts";
        return Some(Problem::new(ProblemKind::NotMounted, Reason::new(message).hint(hint)));
    };
    let dir = publish.dir.display();
    let message = format!("process {target} does not mount `{dir}`, to which podnudge publishes");
    let hint = "mount the same volume (an emptyDir) into the application's container, and let it read its \
                configuration from there";
    Some(Problem::new(ProblemKind::NotPublished, Reason::new(message).hint(hint)))
}

/// A publish directory on the root file system of podnudge's own container, which the application, in
/// another container, cannot see.
pub(super) fn publish_not_a_mount(
    context: &Context,
    rule: &Rule,
    targets: &[TargetProcess],
) -> Option<Problem> {
    let dir = &rule.settings.publish.as_ref()?.dir;
    // Without a shared process namespace, podnudge sees a target only in its own container.
    let is_in_pod = context.sees_other_containers() || mounts::is_in_pod();
    let is_in_own_container = !targets.is_empty() && !context.sees_other_containers();
    if !is_in_pod || is_in_own_container || !mounts::is_on_root(dir) {
        return None;
    }
    let dir = shown::path_literal(dir);
    let message =
        format!("the publish directory {dir} is not a mount: the application cannot see it");
    let hint = "mount one emptyDir there, in podnudge's container and in the application's";
    Some(Problem::new(ProblemKind::PublishNotAMount, Reason::new(message).hint(hint)))
}
