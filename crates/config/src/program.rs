//! Programs that check, reload or verify. Pure.

use super::prelude::*;

/// A program in podnudge's container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program's name or path, and its arguments.
    pub arguments: Vec<String>,
    /// The time limit.
    pub timeout: Duration,
}

settings! {
    /// A program in podnudge's container that makes the application reload.
    pub struct ExecAction = "[rule.exec]"; validated {
        /// Run this program with its arguments, without a shell. The option is split at blanks.
        argv: Vec<String> = required_list("argv = [\"/app/reload\", \"--all\"]", checked("an argument", argument)).option("exec", "COMMAND", Actions).split();
        /// The time limit for the program.
        timeout: Duration = default("30s", time_limit(MINUTE.saturating_mul(10)));
    }
}

impl ExecAction {
    pub(super) fn program(&self) -> Program {
        Program { arguments: self.argv.clone(), timeout: self.timeout }
    }

    fn validate(&mut self, place: &Place<'_>) {
        validate_program(place, "argv", &self.argv);
    }
}

/// Text without NUL.
pub(super) fn argument(text: &str) -> Result<String, Reason> {
    if text.contains('\0') {
        return Err(Reason::new(format!("{} has a NUL in it", literal(text))));
    }
    Ok(text.to_owned())
}

/// Reports a program without a name, or a whole command in one argument.
pub(super) fn validate_program(place: &Place<'_>, key: &str, arguments: &[String]) {
    match arguments {
        [program, ..] if program.trim().is_empty() => {
            place.problem(Value(key), Reason::new("the program's name is empty"));
        }
        [program] if program.contains(' ') => {
            let words: Vec<String> = program.split(' ').map(|word| format!("{word:?}")).collect();
            let reason = Reason::new(format!(
                "{} is a single argument: podnudge uses no shell to split it",
                literal(program)
            ));
            let hint = format!("write `{key} = [{}]`", words.join(", "));
            place.problem(Value(key), reason.hint(hint));
        }
        _ => {}
    }
}
