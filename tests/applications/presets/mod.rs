//! Real applications with podnudge's presets.
//!
//! - With the preset alone, a good change is in effect, with the evidence that the preset promises;
//!   a broken one is never reported as in sync.
//! - With the preset's check, a broken change does not reach the application.
//! - With HUP in place of the preset, as somebody may try first, podnudge never reports that the
//!   application runs content that it has not taken.
//! - With a publish directory and without a check, podnudge rolls a broken change back if it can
//!   see the failure.

mod place;
mod scene;
mod seen;
mod subjects;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use place::Place;
use place::Row;
use podnudge_config::presets;
use scene::{ReadsFrom, Rule, Scene};
pub(super) use seen::{Class, Seen};
use serde_json::Value;
pub(crate) use subjects::{Subject, subjects};

use crate::support::wait::LIMIT;
use crate::support::{in_network, is_within, tmpfs, wait_until};

/// Makes a test of each part, and lists them. Those behind `nightly` are run by `./test nightly` only.
macro_rules! tests {
    ($($subject:ident: $($part:ident)+ $(, nightly $($later:ident)+)?;)+) => {
        $(
            mod $subject {
                use super::*;
                $(
                    #[test]
                    fn $part() {
                        in_network!(super::$part(subject(stringify!($subject))));
                    }
                )+
                $(
                    mod nightly {
                        use super::*;
                        $(
                            #[test]
                            fn $later() {
                                in_network!(super::super::$later(subject(stringify!($subject))));
                            }
                        )+
                    }
                )?
            }
        )+
        const TESTED: &[(&str, &[&str])] =
            &[$((stringify!($subject), &[$(stringify!($part),)+ $($(stringify!($later),)+)?])),+];
    };
}

// Six stand for the ways in which applications reload, and in which that can be known.
tests! {
    alertmanager: reloads, nightly rejects publishes does_not_read;
    apache: reloads, nightly rejects publishes does_not_read;
    bind9: reloads, nightly rejects publishes does_not_read;
    blackbox_exporter: reloads, nightly rejects publishes;
    caddy: reloads rejects publishes is_signalled is_not_mistaken;
    dnsmasq: reloads, nightly rejects publishes is_signalled;
    dovecot: reloads, nightly rejects publishes is_signalled does_not_read;
    gunicorn: reloads, nightly rejects publishes does_not_read;
    haproxy: reloads rejects publishes is_signalled gives_up_soon does_not_read;
    keepalived: reloads, nightly rejects publishes;
    lighttpd: reloads, nightly rejects publishes is_signalled;
    mariadb: reloads, nightly rejects publishes is_signalled;
    mosquitto: reloads, nightly reloads_at_its_usual_place publishes is_signalled;
    nats: reloads, nightly rejects publishes is_signalled gives_up_soon does_not_read;
    nginx: reloads rejects publishes is_signalled gives_up_soon does_not_read has_a_subpath mounts_another;
    pgbouncer: reloads, nightly reloads_at_its_usual_place publishes is_signalled;
    php_fpm: reloads, nightly rejects publishes does_not_read;
    postgres: reloads rejects publishes is_signalled does_not_read;
    prometheus: reloads rejects publishes is_signalled gives_up_soon does_not_read mounts_another;
    redis: reloads reloads_at_its_usual_place publishes;
    rsyslog: reloads, nightly rejects publishes is_signalled;
    squid: reloads, nightly rejects publishes;
    sshd: reloads, nightly rejects publishes;
    stunnel: reloads, nightly reloads_at_its_usual_place publishes is_signalled;
    unbound: reloads, nightly rejects publishes;
    varnish: reloads, nightly rejects publishes is_not_mistaken;
}

fn subject(test: &str) -> &'static Subject {
    let name = test.replace('_', "-");
    subjects().find(|subject| subject.preset == name).unwrap()
}

/// The volume alone: two good changes, a broken one, and the fix.
fn reloads(subject: &'static Subject) {
    reloads_at(subject, Place::asked_for().unwrap_or(Place::Etc));
}

/// Broken content that the application keeps out: the error comes with the preset's own attempts, and says what has
/// probably happened and where to look.
#[expect(clippy::disallowed_methods, reason = "the table shows how long it takes")]
fn gives_up_soon(subject: &'static Subject) {
    let mut scene = Scene::new(subject, Rule::Preset, Place::Usual);
    let began = Instant::now();
    scene.break_with("7101");
    scene.agent.wait_for("gave-up", 1);
    place::write_line(&format!("| {} | {:.1} s |", subject.preset, began.elapsed().as_secs_f64()));
    let last = |name: &str| scene.agent.last("gave-up", name);
    assert_eq!(scene.agent.events("gave-up")[0]["attempts"], 3);
    let expected = format!(
        "{} has probably rejected this content and keeps the old one: its log says why (`kubectl logs web-0 -c app`)",
        subject.preset
    );
    assert!(last("hint").starts_with(&expected), "{}", scene.agent.log());
    let retries = scene.agent.events("retrying");
    let seen: Vec<_> = retries.iter().map(|one| (&one["attempt"], &one["attempts"])).collect();
    assert_eq!(seen, [(&Value::from(1), &Value::from(3)), (&Value::from(2), &Value::from(3))]);
    assert!(retries.iter().all(|one| one["digest"].is_string() && one["wait"].is_number()));
    assert_eq!(scene.status()["in_sync"], "no");
    scene.change_to("7102");
}

/// The entrypoint copies the volume: whatever the application does after its action, it runs what it started with.
fn does_not_read(subject: &'static Subject) {
    let scene = never_claims(subject, Rule::Preset, ReadsFrom::Copy);
    assert!(scene.agent.last("unread", "hint").contains("a copy that was made at its start"));
}

/// One key is mounted by subPath beside the volume, and the application reads that.
fn has_a_subpath(subject: &'static Subject) {
    let scene = never_claims(subject, Rule::Preset, ReadsFrom::SubPath);
    assert_eq!(scene.agent.last("preflight", "problem"), "subpath", "{}", scene.agent.log());
}

/// The target is named, and its container does not mount the watched volume.
fn mounts_another(subject: &'static Subject) {
    let scene = never_claims(subject, Rule::ByProcess, ReadsFrom::Another);
    assert_eq!(scene.agent.last("preflight", "problem"), "not-mounted", "{}", scene.agent.log());
}

fn never_claims(subject: &'static Subject, rule: Rule, from: ReadsFrom) -> Scene {
    let mut scene = Scene::reading(subject, rule, Place::Etc, from);
    for (n, (version, fault)) in
        [("7101", ""), ("7102", subject.fault.as_str())].into_iter().enumerate()
    {
        scene.write_until_seen(version, fault);
        let mut claims = false;
        let has_ended = || {
            claims |= scene.status()["in_sync"] == "yes";
            scene.agent.count("unread") > n
        };
        assert!(is_within(LIMIT, has_ended), "{}", scene.agent.log());
        let status = scene.status();
        assert_eq!(
            (&status["in_sync"], &status["evidence"]),
            (&"unknown".into(), &"unread".into())
        );
        assert!(!claims, "{}", scene.agent.log());
        assert!(subject.shows("7100"));
    }
    place::write_line(&format!(
        "| {} | {from:?} | {rule:?} | the old | unknown, unread |",
        subject.preset
    ));
    scene
}

/// Where the image of the application has a file at the path that the application's own documentation uses, that
/// is not content: it must never reach the application.
fn is_not_mistaken(subject: &'static Subject) {
    tmpfs(&subject.dir);
    let file = Path::new(&subject.dir).join(&subject.key);
    fs::write(file, subject.content.replace("{version}", "9999")).unwrap();
    for place in [Place::Etc, Place::Srv] {
        reloads_at(subject, place);
        assert!(!subject.shows("9999"));
    }
}

/// For the applications without a check, which are not tested by `rejects`.
fn reloads_at_its_usual_place(subject: &'static Subject) {
    reloads_at(subject, Place::Usual);
}

fn reloads_at(subject: &'static Subject, place: Place) {
    let mut scene = Scene::new(subject, Rule::Preset, place);
    let known = scene.known;
    let mut rows = Vec::new();
    for (edit, version) in [("good", "7101"), ("good", "7102")] {
        rows.push(observe(&mut scene, edit, version));
    }
    let ends = scene.application.ends();
    rows.push(observe(&mut scene, "broken", "7103"));
    let takes_a_part = known.broken.starts_with("takes");
    let (shows_broken, shows_last) = (subject.shows("7103"), subject.shows("7102"));
    let has_ended = scene.application.ends() > ends;
    rows.push(observe(&mut scene, "fix", "7104"));
    place::write_to_table(subject, place, &rows);

    for row in &rows {
        assert!(row.is_true(), "{row:?}\n{}", scene.agent.log());
    }
    let [first, second, _, fix] = rows.as_slice() else { unreachable!("there are four edits") };
    for row in [first, second] {
        assert!(row.is_as_promised(known), "{row:?}\n{}", scene.agent.log());
    }
    assert_eq!(ends, if subject.restarts() { 2 } else { 0 });
    assert_eq!(has_ended, known.ends);
    assert_eq!(shows_broken, takes_a_part);
    assert_eq!(shows_last, !takes_a_part && !known.ends);
    assert!(fix.serves && fix.in_sync != "no", "{fix:?}\n{}", scene.agent.log());
    let warnings = scene.agent.events("preflight");
    let warnings: Vec<&Value> = warnings.iter().map(|warning| &warning["problem"]).collect();
    assert_eq!(warnings, if known.ends { vec!["unchecked"] } else { Vec::new() });
}

/// Makes an edit, and looks at what podnudge says of it and what the application serves: for a good one until
/// podnudge says what its preset promises, for a broken one for some seconds.
fn observe(scene: &mut Scene, edit: &'static str, version: &'static str) -> Row {
    let is_broken = edit == "broken";
    let ends = scene.application.ends();
    scene.write_until_seen(version, if is_broken { &scene.subject.fault } else { "" });
    let mut said_yes = false;
    let mut row = Row::default();
    let mut looks = || {
        let status = scene.status();
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        row = Row {
            edit,
            ends: scene.application.ends() - ends,
            // The application is used meanwhile.
            serves: scene.subject.shows(version),
            in_sync: text("in_sync"),
            evidence: text("evidence"),
            state: text("state"),
            message: text("message"),
            has_lied: false,
        };
        said_yes |= row.in_sync == "yes";
        !is_broken && row.serves && row.is_as_promised(scene.known)
    };
    is_within(if is_broken { place::time_for_broken() } else { LIMIT }, &mut looks);
    row.has_lied = if is_broken { said_yes } else { row.in_sync == "yes" && !row.serves };
    if scene.known.ends && is_broken && !scene.subject.restarts() {
        // On a busy machine it ends later.
        let tripped = is_within(LIMIT, || scene.agent.count("tripped") > 0);
        assert!(tripped, "{}", scene.agent.log());
    }
    row
}

/// Meanwhile the application is used.
fn is_never_in_sync(scene: &Scene) {
    let claims = || {
        scene.subject.shows("7103");
        scene.status()["in_sync"] == "yes"
    };
    assert!(!is_within(Duration::from_secs(3), claims));
}

/// With the preset's check: a broken change, and then a good one.
fn rejects(subject: &'static Subject) {
    let mut scene = Scene::new(subject, Rule::Checked, Place::Usual);
    scene.break_with("7101");
    scene.agent.wait_for("rejected", 1);
    wait_until("the status shows it", || scene.status()["state"] == "rejected");
    assert_eq!(scene.status()["in_sync"], "no");
    assert!(subject.shows("7100"));
    assert_eq!(scene.application.ends(), 0);
    scene.change_to("7102");
    assert_eq!((scene.agent.count("rejected"), scene.agent.count("check-failed")), (1, 0));
    assert_eq!(scene.agent.count("preflight"), 0, "{}", scene.agent.log());
}

/// HUP, and neither a preset nor a proof: the application survives, and keeps its configuration or a
/// part of it, as it does not reload on HUP or the content is broken.
fn is_signalled(subject: &'static Subject) {
    let mut scene = Scene::new(subject, Rule::Signalled, Place::Usual);
    let does_not_reload = scene.known.no_reload_on.contains(&Signal::SIGHUP);
    if does_not_reload {
        scene.write_until_seen("7103", "");
    } else {
        scene.break_with("7103");
    }
    is_never_in_sync(&scene);
    assert_eq!(scene.agent.count("applied"), 0, "{}", scene.agent.log());
    let takes_a_part = !does_not_reload && scene.known.broken.starts_with("takes");
    assert_eq!(subject.shows("7103"), takes_a_part);
    assert_eq!(scene.application.ends(), 0);
    let is_warned = |problem: &str| {
        let warnings = scene.agent.events("preflight");
        warnings.iter().any(|warning| warning["problem"] == problem)
    };
    assert_eq!(is_warned("signal-does-not-reload"), does_not_reload);
    // Its end: the application has some seconds to open the content.
    wait_until("the signal was delivered", || scene.status()["state"] == "idle");
    let status = scene.status();
    assert_eq!(status["in_sync"], "unknown", "{}", scene.agent.log());
    let serves = if takes_a_part { "a part" } else { "the old" };
    let [in_sync, evidence] = ["in_sync", "evidence"].map(|key| status[key].as_str().unwrap());
    place::write_line(&format!(
        "| {} | Volume | HUP | {serves} | {in_sync}, {evidence} |",
        subject.preset
    ));
}

/// With a publish directory and without a check: a good change, a broken one, and a good one.
fn publishes(subject: &'static Subject) {
    let mut scene = Scene::new(subject, Rule::Published, Place::Srv);
    scene.change_to("7101");
    scene.wait_until_good();
    let ends = scene.application.ends();
    scene.break_with("7102");
    if scene.known.evidence == "read" && !scene.known.ends {
        is_never_in_sync(&scene);
        assert_eq!(scene.agent.count("rolling-back"), 0);
    } else {
        scene.agent.wait_for("rolled-back", 1);
        wait_until("the application runs the last good content", || subject.shows("7101"));
        assert_eq!(scene.status()["in_sync"], "no");
        assert!(!subject.shows("7102"));
        assert_eq!(scene.application.ends() > ends, scene.known.ends);
    }
    scene.change_to("7103");
}

/// The new workers fail only when they have imported the application, which takes seconds. The master
/// ends, or starts workers again and again.
#[test]
fn a_gunicorn_that_fails_slowly_is_not_in_sync() {
    in_network!();
    let mut scene = Scene::new(subject("gunicorn"), Rule::Preset, Place::Usual);
    scene.change_to("7101");
    for (how, outcome) in [("loops", "retrying"), ("ends", "tripped")] {
        let before = scene.status()["digest_on_disk"].clone();
        scene.write(how, "");
        wait_until("podnudge has seen it", || scene.status()["digest_on_disk"] != before);
        wait_until("podnudge reports it", || {
            assert_ne!(scene.status()["in_sync"], "yes", "{}", scene.agent.log());
            scene.agent.count(outcome) == 1
        });
    }
}

/// It has loaded the application, with its settings, before it started its workers: new ones have the old settings.
#[test]
fn a_gunicorn_with_preload_is_not_in_sync() {
    in_network!(drop(never_claims(&subjects::PRELOADED, Rule::Preset, ReadsFrom::Volume)));
}

#[test]
fn a_gunicorn_that_fails_slowly_is_rolled_back() {
    in_network!();
    let mut scene = Scene::new(subject("gunicorn"), Rule::Published, Place::Usual);
    scene.change_to("7101");
    scene.wait_until_good();
    for (number, how) in ["loops", "ends"].iter().enumerate() {
        scene.write(how, "");
        scene.agent.wait_for("rolled-back", number + 1);
        wait_until("it runs the last good content", || scene.subject.shows("7101"));
    }
}

/// Every application has a test of each part that its preset allows.
#[test]
fn every_application_is_tested_completely() {
    const ALL: [&str; 4] = ["reloads", "reloads_at_its_usual_place", "rejects", "publishes"];
    let parts = |subject: &Subject| {
        let has_check = !subject.known().check.is_empty();
        if has_check {
            vec!["reloads", "rejects", "publishes"]
        } else {
            vec!["reloads", "reloads_at_its_usual_place", "publishes"]
        }
    };
    // Some have tests of their own, too.
    let of_preset = |parts: &[&'static str]| -> Vec<&str> {
        parts.iter().copied().filter(|part| ALL.contains(part)).collect()
    };
    let wanted: BTreeMap<&str, _> =
        subjects().map(|subject| (subject.preset.as_str(), parts(subject))).collect();
    let tested: Vec<(String, &[&str])> =
        TESTED.iter().map(|(test, parts)| (test.replace('_', "-"), *parts)).collect();
    let tested: BTreeMap<&str, _> =
        tested.iter().map(|(name, parts)| (name.as_str(), of_preset(parts))).collect();
    assert_eq!(tested, wanted);
    let untested = presets().iter().map(|preset| preset.name.as_str());
    let untested: Vec<&str> = untested.filter(|name| !wanted.contains_key(name)).collect();
    assert_eq!(untested, ["grafana", "spring-boot"], "Debian has packages of all others");
}
