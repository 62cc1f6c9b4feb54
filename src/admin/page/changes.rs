//! The recent changes of a rule: each as a bar of its steps, with the same as text.

use std::time::Duration;

use super::html::{Html, duration};
use super::strip::{Mark, attempt, going_on};
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
    html.put("<h3>Recent changes</h3>\n", &[]);
    if changes.is_empty() {
        html.put("<p class=\"quiet\">None since podnudge started.</p>\n", &[]);
        return;
    }
    html.put("<ol>\n", &[]);
    for one in changes {
        change(html, one, now);
    }
    html.put("</ol>\n", &[]);
}

fn change(html: &mut Html, change: &Change, now: UnixTime) {
    let end = change.ended_at.unwrap_or(now);
    let (class, sign) = mark(change).map_or(("quiet", "– "), |mark| (mark.class(), mark.sign()));
    let outcome = change.outcome.name().replace('-', " ");
    html.put("<li>\n<p><strong class=\"%\">%%</strong>", &[class, sign, &outcome]);
    if change.evidence != Evidence::None {
        html.put(" (%)", &[change.evidence.name()]);
    }
    if let Some(attempt) = attempt(change) {
        html.put(", %,", &[&attempt]);
    }
    html.put(" after %, begun ", &[&duration(end.since(change.began_at()))]);
    html.ago(change.began_at(), now).put("</p>\n<p>", &[]);
    if change.triggered {
        html.put("Triggered by a person. ", &[]);
    }
    match &change.keys {
        None => _ = html.put("Keys are only shown to the pod itself.", &[]),
        Some(names) => keys(html, names),
    }
    if let Some(digest) = change.digest {
        let digest = format!("{digest:.12}");
        html.put(" <span class=\"quiet\">Digest <code>%</code></span>", &[&digest]);
    }
    html.put("</p>\n", &[]);
    let steps = steps(change, end);
    bar(html, change, &steps);
    html.put("<ul>", &[]);
    for (n, (name, _)) in steps.iter().enumerate() {
        let is_same = |(other, _): &&(StepName, Duration)| other == name;
        // Repeats are one line.
        if !steps.iter().take(n).any(|step| is_same(&step)) {
            let all = steps.iter().filter(is_same);
            let times = match all.clone().count() {
                1 => String::new(),
                times => format!(" ({times} times)"),
            };
            let sum: Duration = all.map(|(_, time)| *time).sum();
            html.put("<li>% %%</li>", &[name.name(), &duration(sum), &times]);
        }
    }
    html.put("</ul>\n", &[]);
    if let Some(reason) = &change.reason {
        let is_good = matches!(change.outcome, Outcome::Applied | Outcome::Delivered);
        html.why(if is_good { "Was delayed" } else { "Reason" }, reason);
    }
    html.put("</li>\n", &[]);
}

/// The steps, and how long each took.
fn steps(change: &Change, end: UnixTime) -> Vec<(StepName, Duration)> {
    let ends = change.steps.iter().skip(1).map(|next| next.began_at).chain([end]);
    let steps = change.steps.iter().zip(ends);
    steps.map(|(step, end)| (step.step, end.since(step.began_at))).collect()
}

/// The lists are read by a screen reader and in a terminal; the bar adds nothing to them there. The last step has the
/// colour of the outcome. A proof that was followed by another step did not come.
fn bar(html: &mut Html, change: &Change, steps: &[(StepName, Duration)]) {
    html.put(
        "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        &[],
    );
    let mut x = 0;
    for (n, ((name, _), width)) in steps.iter().zip(widths(steps)).enumerate() {
        let class = match name {
            _ if n + 1 == steps.len() => mark(change).map(Mark::class),
            StepName::Verify | StepName::Repeat => Some(Mark::Bad.class()),
            _ => None,
        };
        let [x_text, width_text] =
            [x, width.saturating_sub(SPACE)].map(|number| number.to_string());
        html.put(
            "<rect class=\"% %\" x=\"%\" width=\"%\" height=\"10\"/>",
            &[name.name(), class.unwrap_or_default(), &x_text, &width_text],
        );
        x += width;
    }
    html.put("</svg>\n", &[]);
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
    let mut before = "Keys:";
    for (kind, names) in [("changed", changed), ("added", added), ("removed", removed)] {
        for name in names {
            html.put("% % <code>%</code>", &[before, kind, name]);
            before = ",";
        }
    }
    if *more > 0 {
        html.put(", and % more", &[&more.to_string()]);
    }
    if before != "," {
        html.put("No key has changed.", &[]);
    }
}

/// Of a change that went on to be another, there is none.
fn mark(change: &Change) -> Option<Mark> {
    Some(match change.outcome {
        Outcome::Applied => Mark::Good,
        Outcome::Rejected | Outcome::RolledBack | Outcome::Failed | Outcome::Tripped => Mark::Bad,
        Outcome::InProgress => going_on(change),
        Outcome::Delivered => Mark::Open,
        Outcome::Cancelled | Outcome::Superseded => return None,
    })
}
