//! The options of the command line, from the definitions of the settings that have one. Pure.

use super::define::{CommandLine, Definition, Form, Section};

/// An option that sets what the file can set, too.
#[derive(Debug)]
pub struct Flag {
    /// Its name, and how the help shows it.
    pub line: &'static CommandLine,
    /// The setting.
    pub definition: &'static Definition,
    /// The keys that lead to it from the root of the file.
    pub path: Vec<String>,
    /// Whether it makes a table of its own in the list at the last key but one.
    pub adds_table: bool,
}

impl Flag {
    /// Whether it stands without a value, which means `true`.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        matches!(self.definition.form, Form::Truth | Form::Table(..))
    }

    /// Whether it may be repeated.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.definition.is_list && !self.line.is_split
    }
}

/// All options, each once: one that several tables have is for all of them.
#[must_use]
pub fn flags(root: &'static Section) -> Vec<Flag> {
    let mut flags = Vec::new();
    collect(root, &[], false, &mut flags);
    flags
}

fn collect(section: &'static Section, path: &[String], adds_table: bool, flags: &mut Vec<Flag>) {
    for definition in section.settings() {
        let path = [path, &[definition.key()]].concat();
        if let Some(line) = definition.option {
            // Of several, it stands where the last one does.
            flags.retain(|flag| flag.line.name != line.name);
            flags.push(Flag { line, definition, path: path.clone(), adds_table });
        }
        match definition.form {
            Form::Table(inner, _) => collect(inner, &path, false, flags),
            // Options are for the only rule.
            Form::Tables(inner, _) => collect(inner, &path, path != ["rule"], flags),
            _ => {}
        }
    }
}
