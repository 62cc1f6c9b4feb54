//! A document as it grows. What is not written here is escaped.

use std::time::Duration;

use podnudge_core::clock::UnixTime;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// A part of an HTML document.
#[derive(Default)]
pub(super) struct Html(pub(super) String);

impl Html {
    /// Appends markup of podnudge's own.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends a text, as a text or as the value of an attribute.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        // The text may be of another process. Its lines stay.
        for c in shown::message(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Appends a text as the only content of an element with this class.
    pub(super) fn classed(&mut self, element: &'static str, class: &str, text: &str) -> &mut Self {
        self.markup("<").markup(element).markup(" class=\"").text(class).markup("\">").text(text);
        self.markup("</").markup(element).markup(">")
    }

    /// Appends a name and what belongs to it, in a list of such.
    pub(super) fn row(&mut self, name: &'static str, value: impl FnOnce(&mut Self)) -> &mut Self {
        self.markup("<dt>").markup(name).markup("</dt><dd>");
        value(self);
        self.markup("</dd>\n")
    }
}

/// A duration as people say it: two units, or one with a decimal.
pub(super) fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 if millis == 0 => "< 1 ms".to_owned(),
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Appends a reason and its hint.
pub(super) fn why(html: &mut Html, what: &'static str, reason: &Reason) {
    html.markup("<p class=\"why\">").markup(what).markup(": ").text(&reason.message);
    if let Some(hint) = &reason.hint {
        html.markup("\n<span class=\"quiet\">Hint: ").text(hint).markup("</span>");
    }
    html.markup("</p>\n");
}

/// Appends how long ago this was, and the time itself.
pub(super) fn ago(html: &mut Html, at: UnixTime, now: UnixTime) {
    html.text(&duration(now.since(at))).markup(" ago <span class=\"quiet\">at ");
    html.text(&time(at)).markup("</span>");
}

/// `2026-11-23 10:31:07 UTC`.
pub(super) fn time(at: UnixTime) -> String {
    let text = at.to_string();
    let whole = text.split_once('.').map_or(text.as_str(), |(whole, _)| whole);
    whole.replace('T', " ") + " UTC"
}
