//! The programs and files that a rule names: whether they exist.

use std::path::PathBuf;

use crate::exchange::program;
use crate::volume::contents::folder;
use podnudge_config::{Action, Auth, Body, Condition, ProofBy, Rule};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::shown::literal;

/// The first program of the rule that does not exist.
pub(super) fn missing_program(rule: &Rule) -> Option<Problem> {
    let actions = rule.actions.iter().filter_map(|action| match action {
        Action::Exec(program) => Some(program),
        _ => None,
    });
    let checks = rule.checks.iter().filter_map(|check| match &check.condition {
        Condition::Exec(program) => Some(program),
        _ => None,
    });
    let proofs = rule.verify.proofs.iter().filter_map(|proof| match proof {
        ProofBy::Exec(program) => Some(program),
        _ => None,
    });
    let names = actions.chain(checks).chain(proofs).filter_map(|one| one.arguments.first());
    let missing = names.into_iter().find(|name| !program::exists(name))?;
    let message = format!(
        "the program {} does not exist in podnudge's container, or is not executable",
        literal(missing)
    );
    let hint = "run podnudge in the application's image: an init container with `podnudge install DIR` \
                copies it there";
    Some(Problem::new(ProblemKind::ProgramMissing, Reason::new(message).hint(hint)))
}

/// The file that the check of the preset reads, if the volume lacks it.
pub(crate) fn missing_file_of_check(rule: &Rule) -> Option<Problem> {
    let (key, reason) = rule.file_of_check()?;
    let volume = rule.settings.watch.first()?;
    // What cannot be read is a problem of the volume.
    let is_missing = volume.exists() && !folder(volume).join(key).exists();
    is_missing.then(|| Problem::new(ProblemKind::FileMissing, reason))
}

/// A body that the rule's requests send, and that no volume has. It is looked for in the watched volumes: content
/// is published only then.
pub(super) fn missing_body(rule: &Rule) -> Option<Problem> {
    let bodies = rule.actions.iter().filter_map(|action| match action {
        Action::Http(http) => match &http.body {
            Body::Content(path) => Some(path),
            Body::Empty | Body::Text(_) => None,
        },
        _ => None,
    });
    let is_missing = |body: &&PathBuf| {
        let file = rule.settings.content_file(body).ok();
        let volume = file.as_ref().and_then(|file| rule.settings.watch.get(file.volume));
        // What cannot be read is a problem of the volume.
        file.zip(volume).is_some_and(|(file, volume)| {
            volume.exists() && !folder(volume).join(file.key).exists()
        })
    };
    let reason = rule.settings.missing_content(bodies.into_iter().find(is_missing)?);
    Some(Problem::new(ProblemKind::FileMissing, reason))
}

/// The first file of the rule's requests that does not exist: credentials or certificates.
pub(super) fn missing_file(rule: &Rule) -> Option<Problem> {
    let credentials = rule.endpoints().filter_map(|endpoint| match &endpoint.auth {
        Some(Auth::Basic(basic)) => Some(&basic.password_file),
        Some(Auth::Bearer(token)) => Some(token),
        None => None,
    });
    let tls = rule.endpoints().filter_map(|endpoint| endpoint.tls.as_ref());
    let certificates = tls.flat_map(|tls| {
        let client = tls.client.iter().flat_map(|client| [&client.cert_file, &client.key_file]);
        std::iter::once(&tls.ca_file).chain(client)
    });
    let is_missing = |path: &&PathBuf| !path.exists();
    let missing = credentials.chain(certificates).find(is_missing)?;
    let message =
        format!("the file `{}` does not exist in podnudge's container", missing.display());
    let hint = "mount the volume that contains it into podnudge's container, too";
    Some(Problem::new(ProblemKind::FileMissing, Reason::new(message).hint(hint)))
}
