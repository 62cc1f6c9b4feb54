//! What podnudge's own parser (`alone.rs`) answers to podnudge. Pure.

use super::refusal::{Place, Refusal};
use podnudge_core::reason::Reason;

/// The longest answer, in bytes.
pub(super) const MAX_ANSWER: usize = 512;
/// The end of a whole answer: one that was cut off is none.
const END: char = '\n';

/// The answer of the process that parses a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Parsed,
    Syntax(Place),
    TooLarge(String),
    /// The parser could not do its work, and says nothing about the text.
    NotRun(String),
}

impl Answer {
    pub(super) fn of(parsed: Result<(), Refusal>) -> Self {
        match parsed {
            Ok(()) => Self::Parsed,
            Err(Refusal::Syntax(place)) => Self::Syntax(place),
            Err(Refusal::TooLarge(what)) => Self::TooLarge(what),
            Err(Refusal::Failed(reason)) => Self::NotRun(reason.to_string()),
        }
    }

    /// The result of the check.
    pub(super) fn result(self) -> Result<(), Refusal> {
        match self {
            Self::Parsed => Ok(()),
            Self::Syntax(place) => Err(Refusal::Syntax(place)),
            Self::TooLarge(what) => Err(Refusal::TooLarge(what)),
            Self::NotRun(why) => {
                let message = format!("podnudge's own parser could not run: {why}");
                Err(Refusal::Failed(Reason::new(message)))
            }
        }
    }

    pub(super) fn to_text(&self) -> String {
        let text = match self {
            Self::Parsed => "parsed ".to_owned(),
            Self::Syntax((line, column)) => format!("syntax {line} {column}"),
            Self::TooLarge(what) => format!("large {what}"),
            Self::NotRun(why) => format!("failed {why}"),
        };
        text + END.encode_utf8(&mut [0; 4])
    }

    /// None if this is no answer, or not all of it.
    pub(super) fn from_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix(END)?;
        let (what, rest) = text.split_once(' ')?;
        match what {
            "parsed" if rest.is_empty() => Some(Self::Parsed),
            "syntax" => {
                let (line, column) = rest.split_once(' ')?;
                Some(Self::Syntax((line.parse().ok()?, column.parse().ok()?)))
            }
            "large" => Some(Self::TooLarge(rest.to_owned())),
            "failed" => Some(Self::NotRun(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written_and_only_as_a_whole() {
        for answer in [
            Answer::Parsed,
            Answer::Syntax((1, usize::MAX)),
            Answer::TooLarge("more than 256 levels".to_owned()),
            Answer::NotRun("out of memory (os error 12)".to_owned()),
        ] {
            let text = answer.to_text();
            assert!(text.len() <= MAX_ANSWER);
            assert_eq!(Answer::from_text(text.as_bytes()), Some(answer));
            for end in 0..text.len() {
                assert_eq!(Answer::from_text(&text.as_bytes()[..end]), None, "{text}");
            }
        }
        for text in ["\n", "parsed\n", "parsed x\n", "syntax 1\n", "syntax 1 -1\n", "other x\n"] {
            assert_eq!(Answer::from_text(text.as_bytes()), None, "{text}");
        }
    }
}
