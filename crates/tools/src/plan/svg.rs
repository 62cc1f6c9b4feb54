//! The figures as one self-contained SVG file, for light and dark pages.

use super::outcome::{Outcome, Point};
use super::text::{end, rows, wrapped};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;

const STYLE: &str = "text{font:13px sans-serif;fill:#222}.title{font-size:15px}.worst{fill:#f2b8a0}\
    .mean{fill:#c0392b}.axis{stroke:#222}.back{fill:#fff}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.worst{fill:#6b3a2a}.mean{fill:#e8694f}\
    .axis{stroke:#ddd}.back{fill:#181818}}";

/// A drawing of the chart, with the table below it. `title` says what was simulated.
pub(super) fn svg(title: &str, outcome: &Outcome, advice: &[String]) -> String {
    let points = &outcome.chart;
    let top = points.iter().map(|point| point.worst).max().unwrap_or(0).max(1);
    let bottom = TOP + HEIGHT;
    let rows = rows(outcome).into_iter().map(|(name, value)| format!("{name}: {value}"));
    let lines: Vec<String> = rows.chain(advice.iter().flat_map(|line| wrapped(line))).collect();
    let mut y = bottom + 50.0;
    let text = |line: &String| {
        let text = format!("<text x=\"{LEFT}\" y=\"{y}\">{}</text>\n", escaped(line));
        y += 19.0;
        text
    };
    let texts: String = lines.iter().map(text).collect();
    let last = end(points);
    let right = LEFT + WIDTH;
    let (labels, middle) = (bottom + 18.0, LEFT - 8.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {y}\" role=\"img\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{}</text>\n\
         {}{}\
         <path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"end\">{top}</text>\n\
         <text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{LEFT}\" y=\"{labels}\">0 s: the first change</text>\n\
         <text x=\"{right}\" y=\"{labels}\" text-anchor=\"end\">{last:.0} s</text>\n\
         {texts}</svg>\n",
        right + 20.0,
        escaped(title),
        bars(points, top, "worst", |point| f64::from(point.worst)),
        bars(points, top, "mean", |point| point.mean),
        TOP + 10.0,
    )
}

/// One bar for each part of the time.
fn bars(points: &[Point], top: u32, class: &str, height: impl Fn(&Point) -> f64) -> String {
    let count = u32::try_from(points.len()).unwrap_or(u32::MAX).max(1);
    let width = WIDTH / f64::from(count);
    let mut x = LEFT;
    let bar = |point: &Point| {
        let height = height(point) * HEIGHT / f64::from(top);
        let y = TOP + HEIGHT - height;
        let bar = format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
        x += width;
        if height > 0.0 { bar } else { String::new() }
    };
    let path: String = points.iter().map(bar).collect();
    format!("<path class=\"{class}\" d=\"{path}\"/>\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
