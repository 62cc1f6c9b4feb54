//! The recent changes of a rule: each as a bar of its steps, with the same as text.

use std::time::Duration;

use super::html::{Html, ago, duration, why};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::Evidence;
use podnudge_core::status::{Change, ChangedKeys, Outcome, StepName};

/// The width of a bar, in units of its own.
const WIDTH: u64 = 1000;
/// The least width of a step, so that short ones are seen, and the space between two.
const LEAST: u64 = 12;
const SPACE: u64 = 3;

/// Appends the changes, if there are any.
pub(super) fn changes(html: &mut Html, changes: &[Change], now: UnixTime) {
    html.markup("<h3>Recent changes</h3>\n");
    if changes.is_empty() {
        html.markup("<p class=\"quiet\">None since podnudge started.</p>\n");
        return;
    }
    html.markup("<ol>\n");
    for one in changes {
        change(html, one, now);
    }
    html.markup("</ol>\n");
}

fn change(html: &mut Html, change: &Change, now: UnixTime) {
    let end = change.ended_at.unwrap_or(now);
    html.markup("<li>\n<p>").classed("strong", class(change.outcome), &words(change.outcome));
    if change.evidence != Evidence::None {
        html.markup(" (").text(change.evidence.name()).markup(")");
    }
    html.markup(" after ").text(&duration(end.since(change.began_at()))).markup(", begun ");
    ago(html, change.began_at(), now);
    html.markup("</p>\n<p>");
    if change.triggered {
        html.markup("Triggered by a person. ");
    }
    match &change.keys {
        None => _ = html.markup("Keys are only shown to the pod itself."),
        Some(names) => keys(html, names),
    }
    if let Some(digest) = change.digest {
        html.markup(" <span class=\"quiet\">Digest <code>").text(&format!("{digest:.12}"));
        html.markup("</code></span>");
    }
    html.markup("</p>\n");
    let steps = steps(change, end);
    bar(html, &steps);
    html.markup("<ul class=\"steps\">");
    for (name, time) in &steps {
        let text = format!("{} {}", name.name(), duration(*time));
        html.classed("li", name.name(), &text);
    }
    html.markup("</ul>\n");
    if change.attempts > 1 {
        html.markup("<p>").text(&format!("{} attempts.", change.attempts)).markup("</p>\n");
    }
    if let Some(reason) = &change.reason {
        let is_good = matches!(change.outcome, Outcome::Applied | Outcome::Delivered);
        why(html, if is_good { "Was delayed" } else { "Reason" }, reason);
    }
    html.markup("</li>\n");
}

/// The steps, and how long each took.
fn steps(change: &Change, end: UnixTime) -> Vec<(StepName, Duration)> {
    let ends = change.steps.iter().skip(1).map(|next| next.began_at).chain([end]);
    let steps = change.steps.iter().zip(ends);
    steps.map(|(step, end)| (step.step, end.since(step.began_at))).collect()
}

/// The lists are read by a screen reader and in a terminal; the bar adds nothing to them there.
fn bar(html: &mut Html, steps: &[(StepName, Duration)]) {
    html.markup("<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    let mut x = 0;
    for ((name, _), width) in steps.iter().zip(widths(steps)) {
        html.markup("<rect class=\"").markup(name.name()).markup("\" x=\"").text(&x.to_string());
        html.markup("\" width=\"").text(&width.saturating_sub(SPACE).to_string());
        html.markup("\" height=\"10\"/>");
        x += width;
    }
    html.markup("</svg>\n");
}

/// The widths of the steps: at least `LEAST` each, and the rest by their times.
fn widths(steps: &[(StepName, Duration)]) -> Vec<u64> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX / WIDTH);
    let all: u64 = steps.iter().map(|(_, time)| micros(*time)).fold(0, u64::saturating_add);
    let many = u64::try_from(steps.len()).unwrap_or(WIDTH);
    let rest = WIDTH.saturating_sub(LEAST * many);
    let share = |time| match all {
        0 => rest / many.max(1),
        all => u64::try_from(u128::from(micros(time)) * u128::from(rest) / u128::from(all))
            .unwrap_or(rest),
    };
    steps.iter().map(|(_, time)| LEAST + share(*time)).collect()
}

fn keys(html: &mut Html, keys: &ChangedKeys) {
    let ChangedKeys { added, changed, removed, more } = keys;
    let mut is_first = true;
    for (kind, names) in [("changed", changed), ("added", added), ("removed", removed)] {
        for name in names {
            html.markup(if is_first { "Keys: " } else { ", " });
            html.markup(kind).markup(" <code>").text(name).markup("</code>");
            is_first = false;
        }
    }
    if *more > 0 {
        html.text(&format!(", and {more} more"));
    }
    if is_first {
        html.markup("No key has changed.");
    }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "good",
        Outcome::Rejected | Outcome::RolledBack | Outcome::Failed | Outcome::Tripped => "bad",
        Outcome::InProgress | Outcome::Delivered => "open",
        Outcome::Cancelled | Outcome::Superseded => "quiet",
    }
}

fn words(outcome: Outcome) -> String {
    outcome.name().replace('-', " ")
}
