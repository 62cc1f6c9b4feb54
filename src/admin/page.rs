//! Renders the status as a page for people. Pure.
//!
//! The status has all that the page shows, the recent changes included (`crates/core/src/history.rs`): `/status` says
//! the same. Without the feature `page`, nothing is remembered.
//!
//! The page is complete without its script, which only renews it, and it loads nothing. Its policy allows no
//! other script and no other style: what comes from outside is escaped, and would have no effect if it were not.

mod changes;
mod html;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use html::{Html, ago, duration, time, why};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::status::{EagerSyncStatus, RuleStatus, State, Status, VolumeStatus};

/// The style of the page.
pub const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The value of the header `Content-Security-Policy` of the page.
#[must_use]
pub fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// The page.
#[must_use]
pub fn render(status: &Status) -> String {
    let mut html = Html::default();
    html.markup("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .markup("<title>podnudge: ")
        .text(&summary(status).1)
        .markup("</title>\n<style>")
        .markup(STYLE)
        .markup("</style>\n</head>\n<body>\n<header>\n<h1>podnudge</h1>\n</header>\n<main>\n");
    let (class, words) = summary(status);
    html.markup("<p>").classed("strong", class, &capitalized(&words)).markup("</p>\n");
    html.markup("<p class=\"quiet\">As of ").text(&time(status.now)).markup(". podnudge ");
    html.text(status.version).markup(" started ");
    ago(&mut html, status.started, status.now);
    html.markup(".</p>\n");
    if !status.serving {
        html.markup("<p class=\"open\">Draining: the pod is to leave its Services.</p>\n");
    }
    if let Some(reason) = &status.unhealthy {
        why(&mut html, "podnudge should be restarted", reason);
    }
    status.rules.iter().for_each(|one| rule(&mut html, one, status.now));
    if let Some(eager) = &status.eager_sync {
        eager_sync(&mut html, eager, status.now);
    }
    html.markup("</main>\n<script>").markup(SCRIPT).markup("</script>\n</body>\n</html>\n");
    html.0
}

/// Whether all rules are in sync, in words and as a class.
fn summary(status: &Status) -> (&'static str, String) {
    let count = |is: InSync| status.rules.iter().filter(|rule| rule.in_sync == is).count();
    let (all, no, unknown) = (status.rules.len(), count(InSync::No), count(InSync::Unknown));
    let rules = if all == 1 { "rule" } else { "rules" };
    match (no, unknown) {
        (0, 0) => ("good", format!("{all} of {all} {rules} in sync")),
        (0, _) => ("open", format!("{unknown} of {all} {rules} not known to be in sync")),
        _ => ("bad", format!("{no} of {all} {rules} not in sync")),
    }
}

fn rule(html: &mut Html, rule: &RuleStatus, now: UnixTime) {
    html.markup("<section>\n<h2>Rule ").text(&rule.name).markup("</h2>\n<dl>\n");
    html.row("State", |html| {
        html.classed("span", class_of_state(rule.state), &state(rule.state));
    });
    html.row("In sync", |html| {
        let (class, word) = match rule.in_sync {
            InSync::Yes => ("good", "yes"),
            InSync::No => ("bad", "no"),
            InSync::Unknown => ("open", "unknown"),
        };
        html.classed("span", class, word);
        if rule.evidence != Evidence::None {
            html.markup(" (").text(rule.evidence.name()).markup(")");
        }
    });
    html.row("Target", |html| {
        for (n, target) in rule.targets.iter().enumerate() {
            html.markup(if n > 0 { ", " } else { "" }).text(&target.name);
            html.text(&format!(" (pid {})", target.pid));
        }
        html.markup(if rule.targets.is_empty() { "none" } else { "" });
    });
    html.row("Action", |html| {
        html.text(&rule.action.to_string());
    });
    html.row("Proof", |html| {
        html.text(&rule.proof);
    });
    html.row("Volumes", |html| rule.volumes.iter().for_each(|one| volume(html, one, now)));
    digests(html, rule);
    if let Some(at) = rule.next_action_at {
        html.row("Next action", |html| _ = html.markup("in ").text(&duration(at.since(now))));
    }
    if let Some(slot) = &rule.slot {
        html.row("Slot", |html| {
            html.text(slot.held.as_deref().unwrap_or("none"));
            slot.reason.iter().for_each(|reason| why(html, "Reason", reason));
        });
    }
    if let Some(at) = rule.certificates_expire_at {
        html.row("Certificates expire", |html| _ = html.text(&time(at)));
    }
    html.markup("</dl>\n");
    rule.reason.iter().for_each(|reason| why(html, "Reason", reason));
    rule.not_ready.iter().for_each(|reason| why(html, "Not ready", reason));
    for problem in &rule.preflight {
        why(html, "Problem", &problem.reason);
    }
    changes::changes(html, &rule.changes, now);
    html.markup("</section>\n");
}

fn digests(html: &mut Html, rule: &RuleStatus) {
    let Some(on_disk) = rule.digest_on_disk else { return };
    html.row("Digest", |html| {
        html.markup("<code>").text(&format!("{on_disk:.12}")).markup("</code> on disk");
        if let Some(running) = rule.digest_running.filter(|running| *running != on_disk) {
            html.markup(", <code>").text(&format!("{running:.12}")).markup("</code> running");
        }
    });
}

fn volume(html: &mut Html, volume: &VolumeStatus, now: UnixTime) {
    html.markup("<p><code>").text(&volume.path).markup("</code>");
    match volume.committed_at {
        Some(at) => {
            html.markup(" committed ");
            ago(html, at, now);
        }
        None if volume.present => _ = html.markup(" not read yet"),
        None => _ = html.classed("span", "bad", " missing"),
    }
    if volume.backend != "inotify" {
        html.markup(", ").text(volume.backend);
    }
    html.markup("</p>");
    volume.reason.iter().for_each(|reason| why(html, "Reason", reason));
}

fn eager_sync(html: &mut Html, eager: &EagerSyncStatus, now: UnixTime) {
    html.markup("<section>\n<h2>Eager sync</h2>\n");
    eager.reason.iter().for_each(|reason| why(html, "Reason", reason));
    html.markup("<dl>\n");
    for object in &eager.objects {
        html.markup("<dt><code>").text(&object.name).markup("</code></dt><dd>");
        html.markup(if object.watched { "watched" } else { "not watched" });
        if let Some(at) = object.edited_at {
            html.markup(", edited ");
            ago(html, at, now);
        }
        if let Some(took) = object.edit_to_commit_seconds {
            let took = Duration::try_from_secs_f64(took).unwrap_or_default();
            html.markup(", committed ").text(&duration(took)).markup(" after the edit");
        }
        object.reason.iter().for_each(|reason| why(html, "Reason", reason));
        html.markup("</dd>\n");
    }
    html.markup("</dl>\n</section>\n");
}

fn state(state: State) -> String {
    // The name in the status.
    let name = serde_json::to_value(state).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().replace('-', " ")
}

fn class_of_state(state: State) -> &'static str {
    match state {
        State::Idle => "good",
        State::Rejected | State::RolledBack | State::Refused | State::Failed | State::Tripped => {
            "bad"
        }
        _ => "open",
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
