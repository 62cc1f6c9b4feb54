//! A document as it grows. What is not written here is escaped.

use std::time::Duration;

use podnudge_core::clock::UnixTime;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// A part of an HTML document.
#[derive(Default)]
pub(super) struct Html {
    pub(super) text: String,
    /// The reasons that the part has: each is shown once.
    said: Vec<Reason>,
}

impl Html {
    /// Appends markup of podnudge's own, with a text in place of each `%`.
    pub(super) fn put(&mut self, markup: &'static str, texts: &[&str]) -> &mut Self {
        let mut texts = texts.iter();
        for (n, part) in markup.split('%').enumerate() {
            if n > 0
                && let Some(text) = texts.next()
            {
                self.escape(text);
            }
            self.text.push_str(part);
        }
        self
    }

    /// Appends markup of podnudge's own as it is.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Appends a text, as a text or as the value of an attribute.
    fn escape(&mut self, text: &str) {
        // The text may be of another process. Its lines stay.
        for c in shown::message(text).chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                c => self.text.push(c),
            }
        }
    }

    /// Appends a reason and its hint, unless they were said before.
    pub(super) fn why(&mut self, what: &str, reason: &Reason) {
        if self.said.contains(reason) {
            return;
        }
        self.put("<p class=\"why\">%: %", &[what, &reason.message]);
        let is_new = self.said.iter().all(|said| said.hint != reason.hint);
        if let (Some(hint), true) = (&reason.hint, is_new) {
            self.put("\n<span class=\"quiet\">Hint: %</span>", &[hint]);
        }
        self.put("</p>\n", &[]);
        self.said.push(reason.clone());
    }

    /// Forgets what was said: another part begins.
    pub(super) fn begin(&mut self) {
        self.said.clear();
    }

    /// Appends how long ago this was, and the time itself.
    pub(super) fn ago(&mut self, at: UnixTime, now: UnixTime) -> &mut Self {
        let ago = duration(now.since(at));
        self.put("% ago <span class=\"quiet\">at %</span>", &[&ago, &time(at)])
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

/// `2026-11-23 10:31:07 UTC`.
pub(super) fn time(at: UnixTime) -> String {
    let text = at.to_string();
    let whole = text.split_once('.').map_or(text.as_str(), |(whole, _)| whole);
    whole.replace('T', " ") + " UTC"
}
