//! Renders the status as a table. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;

use crate::reason::Reason;

/// The fields of `/status` that the table shows. Lenient: podnudge may have another version.
#[derive(Deserialize)]
struct View {
    now: f64,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    name: String,
    state: String,
    in_sync: String,
    evidence: String,
    reason: Option<ReasonView>,
    digest_on_disk: Option<String>,
    digest_applied: Option<String>,
    next_action_at: Option<f64>,
    #[serde(default)]
    preflight: Vec<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    reason: ReasonView,
}

#[derive(Deserialize)]
struct ReasonView {
    message: String,
    hint: Option<String>,
}

/// Renders the table, and returns whether no rule is known to be out of sync.
///
/// # Errors
/// If the text is not the status of a podnudge.
pub fn render(json: &str) -> Result<(String, bool), Reason> {
    let view: View = serde_json::from_str(json).map_err(|error| {
        Reason::new(format!("this is not the status of a podnudge: {error}"))
            .hint("give podnudge's own listen address by --url")
    })?;
    let header = ["RULE", "STATE", "IN-SYNC", "EVIDENCE", "ON-DISK", "APPLIED", "NEXT-ACTION"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(view.rules.iter().map(|rule| row(rule, view.now)));
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..header.len()).filter_map(width).collect();
    let mut table = String::new();
    for (n, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        // Writing to a `String` cannot fail.
        _ = writeln!(table, "{}", line.trim_end());
        let Some(rule) = n.checked_sub(1).and_then(|n| view.rules.get(n)) else { continue };
        let problems = rule.preflight.iter().map(|problem| ("problem", &problem.reason));
        for (name, why) in rule.reason.iter().map(|why| ("reason", why)).chain(problems) {
            // A checker may have written several lines.
            _ = writeln!(table, "  {name}: {}", why.message.replace('\n', "\n    "));
            if let Some(hint) = &why.hint {
                _ = writeln!(table, "  hint: {hint}");
            }
        }
    }
    Ok((table, view.rules.iter().all(|rule| rule.in_sync != "no")))
}

fn row(rule: &Rule, now: f64) -> [String; 7] {
    let short = |digest: &Option<String>| {
        digest.as_ref().map_or("-".to_owned(), |digest| digest.chars().take(12).collect())
    };
    [
        rule.name.clone(),
        rule.state.clone(),
        rule.in_sync.clone(),
        rule.evidence.clone(),
        short(&rule.digest_on_disk),
        short(&rule.digest_applied),
        rule.next_action_at.map_or("-".to_owned(), |at| format!("in {}", whole_seconds(at - now))),
    ]
}

fn whole_seconds(seconds: f64) -> humantime::FormattedDuration {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}
