//! Renders the status as a page for people. Pure.
//!
//! The status has all that the page shows, the recent changes included (`crates/core/src/history.rs`): `/status` says
//! the same. Without the feature `page`, nothing is remembered.
//!
//! The page is complete without its script, which only renews it, and it loads nothing. Its policy allows no
//! other script and no other style: what comes from outside is escaped, and would have no effect if it were not.

mod changes;
mod html;
mod rule;
mod strip;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use html::{Html, duration, time};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::InSync;
use podnudge_core::status::{EagerSyncStatus, Status};
use strip::Mark;

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

/// Renders the page as HTML.
#[must_use]
pub fn render(status: &Status) -> String {
    let mut html = Html::default();
    let (mark, words) = summary(status);
    let name = status.pod.as_ref().map_or("podnudge", |pod| &pod.name);
    html.markup("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .put("<title>%%: %</title>\n<style>", &[mark.sign(), name, &words])
        .markup(STYLE)
        .put("</style>\n</head>\n<body>\n<header>\n<h1>podnudge</h1>\n", &[]);
    if let Some(pod) = &status.pod {
        html.put("<p>Pod <b>%</b>", &[&pod.name]);
        pod.namespace.iter().for_each(|name| _ = html.put(", namespace <b>%</b>", &[name]));
        pod.node.iter().for_each(|name| _ = html.put(", node <b>%</b>", &[name]));
        html.put("</p>\n", &[]);
    }
    html.put(
        "</header>\n<main>\n<p><strong class=\"%\">%%</strong></p>\n",
        &[mark.class(), mark.sign(), &words],
    );
    html.put(
        "<p class=\"quiet\">As of %. podnudge % started ",
        &[&time(status.now), status.version],
    );
    html.ago(status.started, status.now).put(".</p>\n", &[]);
    if !status.serving {
        html.put("<p class=\"open\">Draining: the pod is to leave its Services.</p>\n", &[]);
    }
    if let Some(reason) = &status.unhealthy {
        html.why("podnudge should be restarted", reason);
    }
    // A stable order: that of the configuration among the same.
    let mut rules: Vec<_> = status.rules.iter().enumerate().collect();
    rules.sort_by_key(|(_, one)| rule::mark(one));
    for (number, one) in rules {
        rule::rule(&mut html, status, number, one);
    }
    if let Some(eager) = &status.eager_sync {
        eager_sync(&mut html, eager, status.now);
    }
    html.put("</main>\n<script>", &[]).markup(SCRIPT).put("</script>\n</body>\n</html>\n", &[]);
    html.text
}

/// Whether all rules are in sync, in words, and the worst mark of a rule.
fn summary(status: &Status) -> (Mark, String) {
    let count = |is: InSync| status.rules.iter().filter(|rule| rule.in_sync == is).count();
    let (all, no, unknown) = (status.rules.len(), count(InSync::No), count(InSync::Unknown));
    let marks = status.rules.iter().map(rule::mark);
    let mark = marks.min().unwrap_or(Mark::Good);
    let rules = if all == 1 { "rule" } else { "rules" };
    let words = match (no, unknown) {
        (0, 0) => format!("{all} of {all} {rules} in sync"),
        (0, _) => format!("{unknown} of {all} {rules} not known to be in sync"),
        _ => format!("{no} of {all} {rules} not in sync"),
    };
    (mark, words)
}

fn eager_sync(html: &mut Html, eager: &EagerSyncStatus, now: UnixTime) {
    html.begin();
    html.put("<section>\n<h2>Eager sync</h2>\n", &[]);
    eager.reason.iter().for_each(|reason| html.why("Reason", reason));
    html.put("<dl>\n", &[]);
    for object in &eager.objects {
        let watched = if object.watched { "watched" } else { "not watched" };
        html.put("<dt><code>%</code></dt><dd>%", &[&object.name, watched]);
        if let Some(at) = object.edited_at {
            html.put(", edited ", &[]).ago(at, now);
        }
        if let Some(took) = object.edit_to_commit_seconds {
            let took = Duration::try_from_secs_f64(took).unwrap_or_default();
            html.put(", committed % after the edit", &[&duration(took)]);
        }
        object.reason.iter().for_each(|reason| html.why("Reason", reason));
        html.put("</dd>\n", &[]);
    }
    html.put("</dl>\n</section>\n", &[]);
}
