//! The figures as a table, and a chart for a terminal.

use super::advice::seconds;
use super::outcome::{Outcome, Point};

/// The height of the chart, in lines.
const LINES: u32 = 8;
/// The parts of a character cell, from below.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// For people. `title` says what was simulated.
pub(super) fn text(title: &str, outcome: &Outcome, advice: &[String]) -> String {
    let mut text = format!("{title}\n\n");
    for (name, value) in rows(outcome) {
        line(&mut text, &format!("{name:<34} {value}"));
    }
    if outcome.chart.iter().any(|point| point.worst > 0) {
        line(&mut text, "");
        chart(&mut text, &outcome.chart);
    }
    line(&mut text, "");
    for sentence in advice {
        let lines = wrapped(sentence);
        line(&mut text, &format!("- {}", lines.join("\n  ")));
    }
    text
}

/// The names and values of the table.
pub(super) fn rows(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let down = outcome.down_at_once;
    let mut rows = vec![
        (
            "replicas down at once",
            format!(
                "mean {:.1}, 90 % of the runs {:.0} to {:.0}, worst {:.0} of {}",
                down.mean, down.p5, down.p95, down.worst, outcome.replicas
            ),
        ),
        ("runs with an outage", outages(outcome)),
    ];
    rows.push((
        "until all have the last change",
        match outcome.seconds_until_all_have_it {
            Some(until) => format!(
                "median {}, p95 {}, worst {}",
                seconds(until.median),
                seconds(until.p95),
                seconds(until.worst)
            ),
            None => "more than 24 h".to_owned(),
        },
    ));
    rows.push((
        "requests fail, per replica",
        if outcome.failing_seconds_per_replica > 0.0 {
            format!("for {}", seconds(outcome.failing_seconds_per_replica))
        } else {
            "none".to_owned()
        },
    ));
    rows.push((
        "requests to the API server",
        match outcome.api_requests_per_second {
            0 => "none".to_owned(),
            peak => format!("at most {peak} in a second, {:.0} in all", outcome.api_requests),
        },
    ));
    if outcome.api_connections > 0 {
        let (connections, megabytes) = (outcome.api_connections, outcome.api_bytes / 1e6);
        let conflicts = outcome.api_conflicts * 100.0;
        rows.push((
            "of them for slots",
            format!(
                "at most {connections} connections, {megabytes:.1} MB, {conflicts:.0} % conflicts"
            ),
        ));
    }
    rows
}

/// The lines of a sentence.
pub(super) fn wrapped(sentence: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut().filter(|line| line.len() + word.len() < 96) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn outages(outcome: &Outcome) -> String {
    let (count, runs, least) = (outcome.outages, outcome.runs, outcome.min_available);
    let part = 100.0 * f64::from(count) / f64::from(runs.max(1));
    let longest = match count {
        0 => String::new(),
        _ => format!(", for up to {}", seconds(outcome.longest_outage_seconds)),
    };
    format!("{count} of {runs} ({part:.0} %): fewer than {least} up{longest}")
}

/// The worst run as bars, with the mean in them.
fn chart(text: &mut String, points: &[Point]) {
    let top = points.iter().map(|point| point.worst).max().unwrap_or(0).max(1);
    let scale = f64::from(LINES * 8) / f64::from(top);
    for row in (0..LINES).rev() {
        let label = match row {
            _ if row == LINES - 1 => top.to_string(),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let mut bar = format!("{label:>7} │");
        for point in points {
            let mean = eighths(point.mean * scale);
            let worst = eighths(f64::from(point.worst) * scale);
            let base = row * 8;
            // What the mean reaches is full; above it, the worst run is light.
            bar.push(if mean >= base + 4 || worst <= base {
                block(mean.saturating_sub(base))
            } else {
                '░'
            });
        }
        line(text, bar.trim_end());
    }
    let columns = "─".repeat(points.len());
    line(text, &format!("        └{columns}"));
    let last = end(points);
    let width = points.len().saturating_sub(1);
    line(text, &format!("         0{:>width$}", seconds(last)));
    line(text, "         replicas down, over the time since the first change: █ mean, ░ worst");
}

/// The time at the right end of the chart.
pub(super) fn end(points: &[Point]) -> f64 {
    let at = |n: usize| points.get(n).map_or(0.0, |point| point.seconds);
    at(points.len().saturating_sub(1)) + at(1)
}

fn eighths(height: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 64")]
    let eighths = height.clamp(0.0, 1000.0).round() as u32;
    eighths
}

fn block(eighths: u32) -> char {
    usize::try_from(eighths).ok().and_then(|n| BLOCKS.get(n.min(8))).copied().unwrap_or(' ')
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
