//! The options of the command line, from the definitions of the settings that have one. Pure.

use super::define::{CommandLine, Definition, Form, Section};

/// A command line option for a setting of the file.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The option's name, and how the help lists it.
    pub line: CommandLine,
    /// The setting that the option sets.
    pub definition: &'static Definition,
    /// The keys that lead to it from the root of the file.
    pub path: Vec<String>,
}

impl Flag {
    /// Whether it may be given without a value, which means `true`.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        matches!(self.definition.form, Form::Bool | Form::Table(..))
    }

    /// Whether it may be repeated.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.definition.list.is_some() && !self.line.is_split
    }
}

/// All options, each once, in the order of the file. An option that several tables have sets all of
/// them, and has the place of the last one.
///
/// There must never be an option `port`, `service-…` or `port-…`: a Service named `podnudge` makes the
/// kubelet set `PODNUDGE_PORT` and `PODNUDGE_SERVICE_HOST` in every pod of its namespace.
#[must_use]
pub fn flags(root: &'static Section) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for definition in root.settings() {
        let key = definition.key();
        let found = match definition.form {
            Form::Table(inner, _) | Form::Tables(inner, _) => self::flags(inner),
            _ => Vec::new(),
        };
        let own = definition.option.map(|line| Flag { line, definition, path: Vec::new() });
        for mut flag in own.into_iter().chain(found) {
            flag.path.insert(0, key.clone());
            flags.retain(|other| other.line.name != flag.line.name);
            flags.push(flag);
        }
    }
    flags
}
