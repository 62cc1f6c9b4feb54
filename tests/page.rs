//! The page for people: what it shows, in a terminal, too, and that nothing from outside changes it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use podnudge::admin::page;
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::{
    Change, ChangedKeys, Counters, EagerSyncStatus, Histogram, ObjectStatus, Outcome, PodStatus,
    RuleStatus, SlotStatus, State, Status, Step, StepName, TargetStatus, VolumeStatus,
};
use regex_lite::Regex;
use sha2::Digest as _;

use crate::support::command;

fn at(seconds: f64) -> UnixTime {
    UnixTime(Duration::from_secs_f64(1_700_000_000.0 + seconds))
}

fn change(steps: &[(StepName, f64)], end: Option<f64>, outcome: Outcome) -> Change {
    Change {
        digest: Some(Digest([0xcd; 32])),
        triggered: false,
        keys: Some(ChangedKeys::default()),
        committed_at: steps.first().map(|(_, began)| at(*began)),
        ended_at: end.map(at),
        outcome,
        evidence: Evidence::None,
        reason: None,
        attempts: 1,
        attempts_allowed: None,
        steps: steps
            .iter()
            .map(|(step, began)| Step { step: *step, began_at: at(*began) })
            .collect(),
    }
}

/// Each text from outside is `outside`.
fn status(outside: &str) -> Status {
    let text = || outside.to_owned();
    let why = || Reason::new(outside).hint(outside);
    let different = || Reason::new(format!("{outside} 2")).hint(format!("{outside} 3"));
    let [settle, check, wait, act, verify] = StepName::ALL;
    let keys = ChangedKeys {
        changed: vec![text()],
        removed: vec![text()],
        more: 3,
        ..ChangedKeys::default()
    };
    let applied = Change {
        keys: Some(keys),
        evidence: Evidence::Verified,
        reason: Some(different()),
        ..change(
            &[(settle, 10.0), (check, 10.5), (wait, 10.62), (act, 41.0), (verify, 41.004)],
            Some(43.5),
            Outcome::Applied,
        )
    };
    let rejected = Change {
        reason: Some(why()),
        triggered: true,
        keys: None,
        ..change(&[(settle, -4000.0), (check, -3999.5)], Some(-3999.0), Outcome::Rejected)
    };
    let volume = VolumeStatus {
        path: text(),
        present: true,
        committed_at: Some(at(50.0)),
        backend: "polling",
        reason: Some(why()),
    };
    let rule = RuleStatus {
        name: text(),
        state: State::Waiting,
        reason: Some(why()),
        not_ready: None,
        in_sync: InSync::No,
        evidence: Evidence::None,
        digest_on_disk: Some(Digest([0xab; 32])),
        digest_applied: None,
        digest_running: Some(Digest([0xcd; 32])),
        digest_published: None,
        shows_digests: false,
        committed_at: Some(at(50.0)),
        applied_at: None,
        succeeded_at: None,
        certificates_expire_at: Some(at(5_000_000.0)),
        next_action_at: Some(at(72.0)),
        paused_until: Some(at(3600.0)),
        slot: Some(SlotStatus { held: Some(text()), reason: Some(why()) }),
        start_expected_at: None,
        start_delay_seconds: None,
        action: "signal".into(),
        proof: "children-newer".to_owned(),
        targets: vec![TargetStatus { pid: 41, name: text() }],
        preflight: vec![Problem::new(ProblemKind::TargetNotFound, why())],
        volumes: vec![volume],
        changes: vec![
            change(&[(settle, 50.0), (wait, 50.5)], None, Outcome::InProgress),
            applied,
            rejected,
        ],
        counters: Counters::default(),
    };
    let object = ObjectStatus {
        name: text(),
        watched: true,
        edited_at: Some(at(49.0)),
        edit_to_commit_seconds: Some(1.25),
        reason: Some(why()),
    };
    Status {
        version: "1.2.3",
        pod: Some(PodStatus { name: text(), namespace: Some(text()), node: Some(text()) }),
        now: at(60.0),
        started: at(-86_400.0),
        ready: true,
        serving: false,
        unhealthy: Some(why()),
        rules: vec![rule],
        log_lines_dropped: 0,
        eager_sync: Some(EagerSyncStatus {
            objects: vec![object],
            reason: Some(why()),
            syncs_requested: 1,
            edit_to_commit: Histogram::default(),
        }),
        reloads: None,
    }
}

/// The tags of a document, with their attributes.
fn tags(page: &str) -> Vec<&str> {
    let body = page.split_once("</style>").unwrap().1.split_once("<script>").unwrap().0;
    Regex::new("<[^>]*>").unwrap().find_iter(body).map(|tag| tag.as_str()).collect()
}

#[test]
fn a_terminal_browser_shows_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    fs::write(&file, page::render(&status("a <text>"))).unwrap();
    let mut w3m = command("w3m");
    w3m.env("HOME", folder.path()).env("LANG", "C.UTF-8");
    w3m.args(["-dump", "-cols", "80", "-T", "text/html", "-I", "UTF-8", "-O", "UTF-8"]).arg(&file);
    let output = w3m.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn texts_from_outside_change_neither_the_document_nor_the_terminal() {
    let harmless = page::render(&status("harmless"));
    for hostile in [
        "</code></style><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</p></main><!--",
        "&lt;script&gt;&#60;",
        "\u{1b}[2J\u{202e}\u{0}\u{feff}",
        "]]><![CDATA[<svg/onload=alert(1)>",
    ] {
        let page = page::render(&status(hostile));
        assert_eq!(tags(&page), tags(&harmless), "{hostile}");
        assert!(!page.contains(hostile), "{hostile}");
        assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "{hostile}");
        assert!(!page.contains(['\u{202e}', '\u{feff}']), "{hostile}");
    }
}

#[test]
fn the_page_loads_nothing_and_its_policy_allows_no_more_than_what_it_has() {
    let page = page::render(&status("x"));
    for loads in
        ["http:", "https:", "//", "src=", "href=", "url(", "@import", "import(", " style=", " on"]
    {
        let body = page.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0;
        let has = if loads.starts_with(' ') {
            tags(&page).iter().any(|tag| tag.contains(loads))
        } else {
            body.contains(loads)
        };
        let of_own = page::STYLE.contains(loads);
        assert!(!has && !of_own, "{loads}");
    }
    let hash = |element: &str| {
        let (_, rest) = page.split_once(&format!("<{element}>")).unwrap();
        let (inline, rest) = rest.split_once(&format!("</{element}>")).unwrap();
        assert!(!rest.contains(&format!("<{element}")), "one {element}");
        format!("{element}-src 'sha256-{}'", STANDARD.encode(sha2::Sha256::digest(inline)))
    };
    let wanted = [
        "default-src 'none'".to_owned(),
        hash("style"),
        hash("script"),
        "connect-src 'self'".to_owned(),
        "base-uri 'none'".to_owned(),
        "form-action 'none'".to_owned(),
        "frame-ancestors 'none'".to_owned(),
    ];
    assert_eq!(page::policy(), wanted.join("; "));
}

/// The relative luminance of `#rrggbb` (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

/// Text needs a contrast of 4.5 (WCAG 2.2, 1.4.3). What is not text has colours of texts, or says nothing.
#[test]
fn light_and_dark_colours_have_enough_contrast() {
    let (light, dark) = page::STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let colours = |text: &str| -> BTreeMap<String, f64> {
        let found = Regex::new("--([a-z]+): (#[0-9a-f]{6});").unwrap();
        found.captures_iter(text).map(|it| (it[1].to_owned(), luminance(&it[2]))).collect()
    };
    let (light, dark) = (colours(light), colours(dark));
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    for scheme in [light, dark] {
        for (name, colour) in &scheme {
            let least = match name.as_str() {
                "text" | "quiet" | "good" | "bad" | "open" => 4.5,
                "ground" | "card" | "line" => continue,
                _ => panic!("what is --{name} for?"),
            };
            for behind in ["ground", "card"] {
                let (a, b) = (colour.max(scheme[behind]), colour.min(scheme[behind]));
                let contrast = (a + 0.05) / (b + 0.05);
                assert!(contrast >= least, "{name} on {behind}: {contrast}");
            }
        }
    }
}

#[test]
fn each_bar_is_as_wide_as_the_others_whatever_its_steps_took() {
    let steps = [StepName::Wait, StepName::Act].into_iter().cycle();
    let times = [0.0, 0.000_001, 86_400.0, 86_400.000_001, 86_401.0, 9e9, 9e9, 9e9, 9e9, 9e9];
    let many: Vec<_> = steps.zip(times).collect();
    let mut status = status("x");
    status.rules[0].changes = (1..=many.len())
        .map(|n| change(&many[..n], Some(times[n - 1]), Outcome::Applied))
        .collect();
    let page = page::render(&status);
    let bars: Vec<&str> = page.split("<svg").skip(1).collect();
    assert_eq!(bars.len(), many.len());
    let number = |rect: &str, name: &str| -> u64 {
        let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    for (n, bar) in bars.iter().enumerate() {
        let bar = bar.split_once("</svg>").unwrap().0;
        let rects: Vec<&str> = bar.split("<rect").skip(1).collect();
        assert_eq!(rects.len(), n + 1);
        let mut end = 0;
        for rect in &rects {
            let (x, width) = (number(rect, "x"), number(rect, "width"));
            assert!(x >= end && width >= 9, "{bar}");
            end = x + width;
        }
        assert!((900..=1000).contains(&end), "{bar}");
    }
}

#[test]
fn a_rule_without_changes_and_targets_says_so() {
    let mut status = status("x");
    let rule = &mut status.rules[0];
    (rule.changes, rule.targets) = (Vec::new(), Vec::new());
    let page = page::render(&status);
    assert!(
        page.contains("None since podnudge started.")
            && page.contains("<dt>Target</dt><dd>none</dd>"),
        "{page}"
    );
}

/// A status of one rule in this state, which publishes, with one change of the content on disk.
fn in_state(state: State, steps: &[(StepName, f64)], outcome: Outcome) -> Status {
    let mut status = status("x");
    let rule = &mut status.rules[0];
    (rule.state, rule.preflight) = (state, Vec::new());
    rule.digest_on_disk = Some(Digest([0xcd; 32]));
    rule.digest_running = Some(Digest([0xab; 32]));
    let end = (outcome != Outcome::InProgress).then_some(59.0);
    rule.changes = vec![change(steps, end, outcome)];
    status
}

/// The strip as text: a step in a line, the one that it is in with its class.
fn strip(page: &str) -> String {
    let (_, rest) = page.split_once("<ol class=\"strip").unwrap();
    let rest = rest.split_once("</ol>").unwrap().0.replace(" aria-current=\"step\"", "");
    let step = Regex::new(r#"<li(?: class="([a-z]*)")?>([^<]*)<small>([^<]*)</small>"#).unwrap();
    let line = |found: regex_lite::Captures<'_>| {
        let class = found.get(1).map_or("", |class| class.as_str());
        let class = if class == "done" { "" } else { class };
        format!("{class} {}{}", &found[2], &found[3]).trim().to_owned()
    };
    step.captures_iter(&rest).map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_strip_shows_the_step_that_the_content_is_in() {
    use Outcome::{Applied, Failed, InProgress, Rejected};
    let [settle, check, wait, act, verify] = StepName::ALL;
    let checked = [(settle, 10.0), (check, 11.0), (wait, 12.5)];
    let sent = [checked[0], checked[1], checked[2], (act, 20.0), (verify, 20.5)];
    let failed = [sent[0], sent[1], sent[2], sent[3], sent[4], (wait, 50.0)];
    let shown = |state, steps: &[(StepName, f64)], outcome| {
        strip(&page::render(&in_state(state, steps, outcome)))
    };
    let mut lines = vec![
        shown(State::Settling, &checked[..1], InProgress),
        shown(State::Checking, &checked[..2], InProgress),
        shown(State::Rejected, &checked[..2], Rejected),
        shown(State::Held, &checked, InProgress),
        shown(State::Acting, &sent[..4], InProgress),
        shown(State::Verifying, &sent, InProgress),
        shown(State::Backoff, &failed, InProgress),
        shown(State::Backoff, &sent[..4], InProgress),
        shown(State::Failed, &sent, Failed),
        shown(State::RolledBack, &failed, Outcome::RolledBack),
        shown(State::Idle, &sent, Applied),
    ];
    let mut in_sync = in_state(State::Idle, &sent, Applied);
    let rule = &mut in_sync.rules[0];
    (rule.in_sync, rule.evidence) = (InSync::Yes, Evidence::Verified);
    rule.digest_published = rule.digest_on_disk;
    lines.push(strip(&page::render(&in_sync)));
    let rule = &mut in_sync.rules[0];
    (rule.in_sync, rule.evidence) = (InSync::Unknown, Evidence::Delivered);
    lines.push(strip(&page::render(&in_sync)));
    let rule = &mut in_sync.rules[0];
    (rule.state, rule.changes[0].outcome) = (State::Waiting, InProgress);
    rule.digest_published = rule.digest_running;
    lines.push(strip(&page::render(&in_sync)));
    in_sync.rules[0].changes.clear();
    lines.push(strip(&page::render(&in_sync)));
    insta::assert_snapshot!(lines.join("\n"));
}

/// Green is only for a proof that came, and red stays until then.
#[test]
fn an_attempt_after_one_that_failed_is_red_until_its_proof_comes() {
    let [_, _, wait, act, verify] = StepName::ALL;
    let steps =
        [(wait, 10.0), (act, 20.0), (verify, 20.5), (wait, 50.0), (act, 51.0), (verify, 52.0)];
    let mut status = in_state(State::Verifying, &steps, Outcome::InProgress);
    let change = &mut status.rules[0].changes[0];
    (change.attempts, change.attempts_allowed) = (2, Some(3));
    let page = page::render(&status);
    assert!(strip(&page).ends_with("bad ✗ proven attempt 2 of 3"), "{}", strip(&page));
    assert!(page.contains("✗ verifying, attempt 2 of 3</span></h2>"), "{page}");
    // The attempt that failed, and the one that goes on; all in one line.
    let rects = |page: &str, class: &str| page.matches(&format!("<rect class=\"{class}\"")).count();
    assert_eq!((rects(&page, "verify bad"), rects(&page, "verify good")), (2, 0));
    assert!(page.contains("<li>verify 37.5 s (2 times)</li>"), "{page}");
    let rule = &mut status.rules[0];
    (rule.state, rule.in_sync, rule.evidence) = (State::Idle, InSync::Yes, Evidence::Verified);
    (rule.changes[0].outcome, rule.changes[0].ended_at) = (Outcome::Applied, Some(at(59.0)));
    let page = page::render(&status);
    assert_eq!((rects(&page, "verify bad"), rects(&page, "verify good")), (1, 1));
    assert!(strip(&page).ends_with("good ✓ proven verified"), "{}", strip(&page));
}

#[test]
fn rules_that_fail_are_first_and_each_reason_is_there_once() {
    let mut status = status("x");
    let of = |name: &str, state, in_sync, why: &str| {
        let rule = status.rules[0].clone();
        let (name, reason) = (name.to_owned(), Some(Reason::new(why).hint("the same hint")));
        RuleStatus { name, state, in_sync, reason, preflight: Vec::new(), ..rule }
    };
    let mut failed = of("failed", State::Failed, InSync::No, "it failed");
    failed.changes[0].reason = failed.reason.clone();
    failed.not_ready = Some(Reason::new("another").hint("the same hint"));
    status.rules = vec![
        of("idle", State::Idle, InSync::Yes, "idle"),
        of("held", State::Held, InSync::No, "it is held"),
        failed,
    ];
    let page = page::render(&status);
    let names: Vec<&str> =
        page.split("<h2>Rule ").skip(1).map(|rest| rest.split_once(' ').unwrap().0).collect();
    assert_eq!(names, ["failed", "held", "idle"]);
    assert_eq!(page.matches("it failed").count(), 1, "{page}");
    let first = page.split_once("<h2>Rule held").unwrap().0;
    assert_eq!(first.matches("the same hint").count(), 1, "{first}");
    // What is well is closed.
    assert_eq!((page.matches("<details open>").count(), page.matches("<details>").count()), (2, 1));
}

#[test]
fn a_rule_that_needs_a_person_has_a_command_to_copy() {
    let command = |state, in_sync| {
        let mut status = in_state(state, &[(StepName::Wait, 10.0)], Outcome::Failed);
        status.rules[0].in_sync = in_sync;
        let page = page::render(&status);
        let (_, rest) = page.split_once("<code class=\"copy\">")?;
        Some(rest.split_once("</code>").unwrap().0.to_owned())
    };
    let wanted = "kubectl logs x -n x --all-containers --prefix --since=15m";
    assert_eq!(command(State::Failed, InSync::No).as_deref(), Some(wanted));
    let wanted = "kubectl exec x -n x -c podnudge -- podnudge approve x";
    assert_eq!(command(State::Held, InSync::No).as_deref(), Some(wanted));
    let wanted = "kubectl exec x -n x -c podnudge -- podnudge status";
    assert_eq!(command(State::Waiting, InSync::No).as_deref(), Some(wanted));
    assert_eq!(command(State::Idle, InSync::Yes), None);
}
