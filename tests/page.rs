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
    Change, ChangedKeys, Counters, EagerSyncStatus, Histogram, ObjectStatus, Outcome, RuleStatus,
    SlotStatus, State, Status, Step, StepName, TargetStatus, VolumeStatus,
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
        reason: Some(why()),
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
        pod: None,
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

/// Text needs a contrast of 4.5, and what is not text of 3 (WCAG 2.2, 1.4.3 and 1.4.11).
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
                "settle" | "check" | "wait" | "act" | "verify" => 3.0,
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
