//! Renders the status as a table. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;

use podnudge_core::reason::Reason;
use podnudge_core::shown::{self, Colours};

/// The fields of `/status` that the table shows. Lenient: podnudge may have another version.
#[derive(Deserialize)]
struct View {
    now: f64,
    rules: Vec<Rule>,
    eager_sync: Option<EagerSync>,
}

#[derive(Deserialize)]
struct EagerSync {
    #[serde(default)]
    objects: Vec<Object>,
    reason: Option<ReasonView>,
}

#[derive(Deserialize)]
struct Object {
    name: String,
    watched: bool,
    edited_at: Option<f64>,
    edit_to_commit_seconds: Option<f64>,
    reason: Option<ReasonView>,
}

#[derive(Deserialize)]
struct Rule {
    name: String,
    state: String,
    in_sync: String,
    evidence: String,
    #[serde(default)]
    proof: Option<String>,
    #[serde(default)]
    targets: Vec<Target>,
    reason: Option<ReasonView>,
    digest_on_disk: Option<String>,
    digest_applied: Option<String>,
    digest_running: Option<String>,
    committed_at: Option<f64>,
    applied_at: Option<f64>,
    next_action_at: Option<f64>,
    paused_until: Option<f64>,
    action: Option<String>,
    slot: Option<Slot>,
    start_expected_at: Option<f64>,
    start_delay_seconds: Option<u64>,
    #[serde(default)]
    preflight: Vec<Problem>,
}

#[derive(Deserialize)]
struct Slot {
    held: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    pid: i32,
    name: String,
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

/// Which columns the table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The columns that fit into 100 characters.
    Most,
    /// All columns.
    All,
}

const HEADER: [&str; 13] = [
    "RULE",
    "STATE",
    "IN-SYNC",
    "EVIDENCE",
    "PROOF",
    "TARGET",
    "ON-DISK",
    "NEXT-ACTION",
    "RUNNING",
    "ACTION",
    "COMMITTED",
    "APPLIED",
    "SLOT",
];
/// The columns that the table always has.
const MOST: usize = 8;

/// Renders the table, and returns whether no rule is known to be out of sync. Another process may have
/// written the status: nothing in it controls a terminal.
///
/// # Errors
/// If the text is not the status of a podnudge.
pub fn render(json: &str, columns: Columns, colours: Colours) -> Result<(String, bool), Reason> {
    let view = read(json)?;
    let is_right = view.rules.iter().all(|rule| rule.in_sync != "no");
    Ok((table(&view, columns, colours), is_right))
}

/// A text that is the same as long as nothing but the time has changed.
///
/// # Errors
/// If the text is not the status of a podnudge.
pub fn state(json: &str) -> Result<String, Reason> {
    let view = View { now: 0.0, ..read(json)? };
    Ok(table(&view, Columns::All, Colours::Off))
}

fn read(json: &str) -> Result<View, Reason> {
    serde_json::from_str(json).map_err(|error| {
        Reason::new(format!("this is not the status of a podnudge: {error}"))
            .hint("give podnudge's own listen address by --url")
    })
}

fn table(view: &View, columns: Columns, colours: Colours) -> String {
    let count = if columns == Columns::All { HEADER.len() } else { MOST };
    let header = HEADER.map(|name| Cell { text: name.to_owned(), colour: Colour::Bold });
    let mut rows = vec![header];
    rows.extend(view.rules.iter().map(|rule| row(rule, view.now)));
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max();
    let widths: Vec<usize> = (0..count).filter_map(width).collect();
    let mut table = String::new();
    for (n, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // No blanks at the end of the line.
            let blanks = if column + 1 == count { 0 } else { width - cell.width() + 2 };
            table.push_str(&paint(&cell.text, cell.colour, colours));
            table.extend(std::iter::repeat_n(' ', blanks));
        }
        table.push('\n');
        if let Some(rule) = n.checked_sub(1).and_then(|n| view.rules.get(n)) {
            add_details(&mut table, rule, view.now, colours);
        }
    }
    if let Some(eager) = &view.eager_sync {
        add_objects(&mut table, eager, view.now, colours);
    }
    table
}

/// The objects behind the volumes, a line each, and what keeps podnudge from following them.
fn add_objects(table: &mut String, eager: &EagerSync, now: f64, colours: Colours) {
    let mut lines = Vec::new();
    for object in &eager.objects {
        let state = if object.watched { "watched" } else { "not watched" };
        let edited = object.edited_at.map(|at| format!(", edited {} ago", whole_seconds(now - at)));
        let took = object.edit_to_commit_seconds;
        let took = took.map(|took| format!(", on disk {took:.2}s after the edit"));
        let (edited, took) = (edited.unwrap_or_default(), took.unwrap_or_default());
        lines.push(("object", format!("{} is {state}{edited}{took}", object.name)));
    }
    let mut reasons: Vec<&ReasonView> = Vec::new();
    for reason in
        eager.reason.iter().chain(eager.objects.iter().filter_map(|it| it.reason.as_ref()))
    {
        if reasons.iter().all(|known| known.message != reason.message) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        lines.push(("eager sync", reason.message.clone()));
        lines.extend(reason.hint.iter().map(|hint| ("hint", hint.clone())));
    }
    for (name, text) in lines {
        let name = paint(&format!("{name}:"), Colour::Bold, colours);
        // Writing to a `String` cannot fail.
        _ = writeln!(table, "{name} {}", shown::message(&text).replace('\n', "\n  "));
    }
}

/// The lines below a rule's row.
fn add_details(table: &mut String, rule: &Rule, now: f64, colours: Colours) {
    let mut line = |name: &str, text: &str| {
        let name = paint(&format!("{name}:"), Colour::Bold, colours);
        // Writing to a `String` cannot fail. A checker may have written several lines.
        _ = writeln!(table, "  {name} {}", shown::message(text).replace('\n', "\n    "));
    };
    if rule.digest_applied.is_some() && rule.digest_applied != rule.digest_on_disk {
        line("applied", &short(rule.digest_applied.as_ref()));
    }
    if let Some(at) = rule.paused_until {
        line("paused", &format!("by a person, for another {}", whole_seconds(at - now)));
    }
    if let Some(at) = rule.start_expected_at {
        let wait = whole_seconds(at - now);
        line("kubelet", &format!("is expected to start the container in about {wait}"));
    } else if let Some(delay) = rule.start_delay_seconds {
        let delay = whole_seconds(Duration::from_secs(delay).as_secs_f64());
        line("kubelet", &format!("would start the container about {delay} after its next end"));
    }
    // The preflight often finds what the reason says.
    let is_said =
        |why: &ReasonView| rule.reason.as_ref().is_some_and(|it| it.message == why.message);
    let problems = rule.preflight.iter().map(|problem| ("problem", &problem.reason));
    let problems = problems.filter(|(_, why)| !is_said(why));
    for (name, why) in rule.reason.iter().map(|why| ("reason", why)).chain(problems) {
        line(name, &why.message);
        if let Some(hint) = &why.hint {
            line("hint", hint);
        }
    }
}

fn row(rule: &Rule, now: f64) -> [Cell; HEADER.len()] {
    let plain = |text: String| Cell { text: shown::text(&text), colour: Colour::None };
    let state = match rule.state.as_str() {
        "rejected" | "rolled-back" | "refused" | "failed" | "tripped" => Colour::Red,
        "held" | "backoff" | "waiting-for-volume" | "waiting-for-target" => Colour::Yellow,
        _ => Colour::None,
    };
    let in_sync = match rule.in_sync.as_str() {
        "yes" => Colour::Green,
        "no" => Colour::Red,
        _ => Colour::Yellow,
    };
    let next = rule.next_action_at.map(|at| format!("in {}", whole_seconds(at - now)));
    let ago = |at: Option<f64>| at.map(|at| format!("{} ago", whole_seconds(now - at)));
    let slot = rule.slot.as_ref().and_then(|slot| slot.held.clone());
    let missing = || "-".to_owned();
    [
        plain(rule.name.clone()),
        Cell { colour: state, ..plain(rule.state.clone()) },
        Cell { colour: in_sync, ..plain(rule.in_sync.clone()) },
        plain(rule.evidence.clone()),
        plain(rule.proof.clone().unwrap_or_else(missing)),
        plain(target(&rule.targets)),
        plain(short(rule.digest_on_disk.as_ref())),
        plain(next.unwrap_or_else(missing)),
        plain(short(rule.digest_running.as_ref())),
        plain(rule.action.clone().unwrap_or_else(missing)),
        plain(ago(rule.committed_at).unwrap_or_else(missing)),
        plain(ago(rule.applied_at).unwrap_or_else(missing)),
        plain(slot.unwrap_or_else(missing)),
    ]
}

/// `41 (nginx)`, and how many more there are.
fn target(targets: &[Target]) -> String {
    match targets {
        [] => "-".to_owned(),
        [Target { pid, name }] => format!("{pid} ({name})"),
        [Target { pid, name }, more @ ..] => format!("{pid} ({name}) +{}", more.len()),
    }
}

fn short(digest: Option<&String>) -> String {
    digest.map_or("-".to_owned(), |digest| digest.chars().take(12).collect())
}

fn whole_seconds(seconds: f64) -> humantime::FormattedDuration {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}

struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

#[derive(Clone, Copy)]
enum Colour {
    None,
    Bold,
    Red,
    Green,
    Yellow,
}

/// The text in a colour of ECMA-48.
fn paint(text: &str, colour: Colour, colours: Colours) -> String {
    let code = match (colour, colours) {
        (Colour::None, _) | (_, Colours::Off) => return text.to_owned(),
        (Colour::Bold, Colours::On) => 1,
        (Colour::Red, Colours::On) => 31,
        (Colour::Green, Colours::On) => 32,
        (Colour::Yellow, Colours::On) => 33,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
