//! Programs that check, act or prove. Pure.

use std::time::Duration;

use super::problem::{Given, literal};
use super::table::Table;
use crate::reason::Reason;

/// A program in podnudge's own file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name or path, and its arguments.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// A program and its arguments, at `key`; `None` only after a problem was reported.
pub(super) fn program(table: &mut Table<'_>, key: &'static str) -> Option<Vec<String>> {
    let argument = |text: &str| {
        if text.contains('\0') {
            return Err(Reason::new(format!("{} has a NUL in it", literal(text))));
        }
        Ok(text.to_owned())
    };
    let report = table.report;
    let Given { at, value } = table.list(key, argument)?;
    let arguments: Vec<String> = value.into_iter().map(|given| given.value).collect();
    match arguments.first() {
        None => report.problem(&at, Reason::new(format!("`{key}` names no program"))),
        Some(program) if program.trim().is_empty() => {
            report.problem(&at, Reason::new("the program's name is empty"));
        }
        Some(program) if program.contains(' ') && arguments.len() == 1 => {
            let words: Vec<String> = program.split(' ').map(|word| format!("{word:?}")).collect();
            let reason =
                Reason::new(format!("there is no shell that would split {}", literal(program)));
            report.problem(&at, reason.hint(format!("write `{key} = [{}]`", words.join(", "))));
        }
        Some(_) => {}
    }
    Some(arguments)
}
