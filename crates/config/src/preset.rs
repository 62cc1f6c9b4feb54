//! Presets: what podnudge knows of applications, one file each in `presets/`. Pure.
//!
//! A preset is merged into the tree of a rule before that is read: `preset = "nginx"`. So it is nothing but settings,
//! and those of the rule take precedence. A rule without an action gets the preset of its target's program once that is
//! found: at the preflight and before an action, `Agent::choose_preset` (`src/run/preset.rs`) asks `src/process/preset.rs`,
//! replaces the rule (`late_preset.rs` reads it anew), and tells the core by `Event::PolicyChanged`. Until then the
//! policy counts it as a rule with a proof, so that nothing is claimed without one. podnudge chooses no preset that
//! restarts the target or runs a program: those must be named.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use nix::sys::signal::Signal;

use podnudge_core::collect;

use super::action::{ACTIONS, signal_name};
use super::prelude::*;
use super::problem::{At, Report, nearest};
use super::settings::{self, Settings};
use super::tree::{self, Entries, Node, Value as Tree};

/// The length to which the kernel cuts the name of a process.
const COMM_LENGTH: usize = 15;

/// The tables of a rule that belong to the action of a preset.
const FILLED: [&str; 2] = ["verify", "retry"];

/// The files, by name.
macro_rules! files {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../../../presets/", $name, ".toml")))),+]
    };
}

const FILES: &[(&str, &str)] = files! {
    "alertmanager" "apache" "bind9" "blackbox-exporter" "caddy" "dnsmasq" "dovecot" "grafana"
    "gunicorn" "haproxy" "keepalived" "lighttpd" "mariadb" "mosquitto" "nats" "nginx" "pgbouncer"
    "php-fpm" "postgres" "prometheus" "redis" "rsyslog" "spring-boot" "squid" "sshd" "stunnel"
    "unbound" "varnish"
};

settings! {
    /// What podnudge knows of an application, besides the settings of its rule.
    pub struct Preset = ""; {
        /// The names of its program; none if the name does not identify it.
        programs: Vec<glob::Pattern> = list("", glob());
        /// How it takes a new configuration.
        about: String = required("about = \"HUP\"", string("text"));
        /// The evidence that podnudge can get.
        evidence: String = required("evidence = \"delivered\"", string("text"));
        /// What a broken configuration does to it, without a check.
        broken: String = required("broken = \"ends\"", string("text"));
        /// Whether a broken configuration ends it.
        ends: bool = default("false", boolean());
        /// Whether it starts a worker again that has ended, with the configuration that it keeps. It starts new ones before the old ones end.
        starts_again: bool = default("false", boolean());
        /// The keys that it ignores if it cannot read or parse them: new children prove nothing of content with such a key.
        ignores: Vec<glob::Pattern> = list("", glob());
        /// A program that checks its configuration, with its arguments.
        check: Vec<String> = list("", string("an argument"));
        /// Whether only a rule that asks for it uses that program: it runs code of users, or takes much memory.
        check_on_request: bool = default("false", boolean());
        /// What it needs, and what podnudge cannot know or do.
        limits: Option<String> = optional("", string("text"));
        /// The signals that other applications reload on, and that do not make it reload.
        no_reload_on: Vec<Signal> = list("", signal_name());
        /// What it does on these signals instead.
        no_reload_because: Option<String> = optional("", string("text"));
        /// The preset's name.
        name: String = computed();
        /// The settings of the rule, as the file writes them.
        text: String = computed();
        /// The settings of the rule, parsed.
        rule: Rows = computed();
    }
}

/// The settings of a rule that were not read yet.
#[derive(Debug, Clone, Default)]
pub struct Rows(pub(super) Entries);

/// What a rule without an action needs to get a preset later.
#[derive(Debug, Clone)]
pub(super) struct Unresolved {
    /// The rule's own settings of the tables that a preset fills, besides its action.
    pub(super) own: Rows,
    /// The system's CA bundle.
    pub(super) bundle: Option<PathBuf>,
}

/// All presets, in the order of their names.
#[must_use]
pub fn presets() -> &'static [Preset] {
    static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        FILES.iter().filter_map(|(name, text)| Preset::read(name, text)).collect()
    });
    &ALL
}

/// The preset with this name.
///
/// # Errors
/// If there is none.
pub fn preset(name: &str) -> Result<&'static Preset, Reason> {
    presets().iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        let reason = Reason::new(format!("there is no preset {}", literal(name)));
        match nearest(name, &names) {
            Some(near) => reason.hint(format!("did you mean `{near}`?")),
            None => reason.hint(format!("one of `{}`", names.join("`, `"))),
        }
    })
}

/// Parses the name of a preset.
pub(super) fn parse_name(name: &str) -> Result<String, Reason> {
    preset(name).map(|preset| preset.name.clone())
}

impl Preset {
    pub(super) fn read(name: &str, text: &str) -> Option<Self> {
        let report = Report::new(Self::SECTION, name, text, &|_| None, None);
        let mut entries = tree::read(text, &report)?;
        let rule = match entries.remove("rule")?.1.value {
            Tree::Table(rule) => Rows(rule),
            _ => return None,
        };
        let text = text.split_once("\n\n").map_or("", |(_, rule)| rule).to_owned();
        let preset = settings::read::<Self>(Place::root(&report), entries)?;
        let name = name.to_owned();
        report.finish(Some(Self { name, text, rule, ..preset })).ok().map(|(preset, _)| preset)
    }

    /// Whether it is for a program, by the name of its process, as the kernel cuts it.
    #[must_use]
    pub fn is_for(&self, comm: &str) -> bool {
        let is_name = |program: &glob::Pattern| {
            let cut: String = program.as_str().chars().take(COMM_LENGTH).collect();
            program.matches(comm) || (comm.len() == COMM_LENGTH && cut == comm)
        };
        self.programs.iter().any(is_name)
    }

    /// The preset for a program, by the name of its process, as the kernel cuts it.
    #[must_use]
    pub fn of_program(comm: &str) -> Option<&'static Self> {
        presets().iter().find(|preset| preset.is_for(comm))
    }

    /// The preset that a rule without an action uses for a program.
    ///
    /// # Errors
    /// If there is none, or it needs the user's consent.
    pub fn chosen_for(comm: &str) -> Result<&'static Self, Reason> {
        let shown = podnudge_core::shown::text(comm);
        let Some(preset) = Self::of_program(comm) else {
            let message =
                format!("the rule has no action, and podnudge does not know how `{shown}` reloads");
            let hint = "set one: `--signal HUP`, `--url URL`, `--exec COMMAND` or `--restart`; \
                        `podnudge presets` lists the programs that it knows; if this one only starts the \
                        application, set `--preset NAME`, and name its process with `--process`";
            return Err(Reason::new(message).hint(hint));
        };
        let Self { name, about, .. } = preset;
        // Signals and requests do no harm; a restart interrupts the application, and programs are not
        // in podnudge's own image.
        if ["restart", "exec"].iter().any(|action| preset.rule.0.contains_key(*action)) {
            let message = format!(
                "the rule has no action, and `{shown}` takes a new configuration by {about}"
            );
            return Err(
                Reason::new(message).hint(format!("set `--preset {name}` if that is wanted"))
            );
        }
        Ok(preset)
    }

    /// Adds a hint to the reason why a proof is missing or the application has rejected content: what that probably
    /// means, and where to look. `log` is called only if the hint is added, and returns the command that prints the
    /// application's log.
    #[must_use]
    pub fn explain(&self, reason: Reason, log: impl FnOnce() -> String) -> Reason {
        let Self { name, check, .. } = self;
        if reason.hint.is_some() || !self.broken.starts_with("keeps the running configuration") {
            return reason;
        }
        let mut hint = format!(
            "{name} has probably rejected this content and keeps the old one: its log says why (`{}`)",
            log()
        );
        if !check.is_empty() {
            hint += "; `check = \"preset\"` by podnudge in the application's image finds this before the action";
        }
        reason.hint(hint)
    }

    /// A configuration file with the settings that the preset stands for.
    #[must_use]
    pub fn as_file(&self) -> String {
        let Self { name, about, evidence, broken, .. } = self;
        let mut text = format!("# {name}: {about}.\n");
        _ = writeln!(text, "# Evidence: {evidence}. A broken configuration: it {broken}.");
        if let Some(limits) = &self.limits {
            _ = writeln!(text, "# Note: {limits}.");
        }
        _ = write!(text, "\n[[rule]]\nwatch = [\"/etc/{name}\"]\n\n{}", self.text);
        if !self.check.is_empty() {
            let arguments = self.check.iter().map(|argument| literal_of(argument));
            let arguments: Vec<String> = arguments.collect();
            text += "\n# If podnudge runs in the application's image (`podnudge install`):\n";
            _ = writeln!(text, "# [[rule.check]]\n# exec = [{}]", arguments.join(", "));
        }
        text
    }
}

fn literal_of(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Adds the presets that the rules name. Returns what each rule without an action needs to get one
/// later.
pub(super) fn merge(root: &mut Entries, report: &Report<'_>) -> Vec<Option<Unresolved>> {
    let each = |rule: &mut Entries| {
        let named = rule.get("preset").map(|(_, node)| &node.value);
        if let Some(Tree::Text(name)) = named {
            // A wrong name is reported when the rule is read.
            if let Ok(preset) = preset(name) {
                add(rule, preset);
            }
            return None;
        }
        let has_action = acts(rule);
        let own =
            FILLED.iter().filter_map(|key| Some(((*key).to_owned(), rule.get(*key)?.clone())));
        let own = Rows(collect::map(own));
        let bundle = report.bundle.map(ToOwned::to_owned);
        (!has_action).then_some(Unresolved { own, bundle })
    };
    tree::tables(root, "rule").map(each).collect()
}

/// Whether the rule has an action of its own. As the last resort, a restart is none.
fn acts(rule: &Entries) -> bool {
    let lists_restart = |node: &Node| matches!(&node.value, Tree::Text(step) if step == "restart");
    let is_last_resort = rule.get("on-failure").is_some_and(|(_, node)| match &node.value {
        Tree::List(steps) => steps.iter().any(lists_restart),
        _ => lists_restart(node),
    });
    let counts = |action: &str| action != "restart" || !is_last_resort;
    ACTIONS.iter().any(|action| counts(action) && rule.contains_key(*action))
}

/// Adds the settings of a preset to those of a rule, which take precedence. If the rule has other
/// actions, it also needs other proofs.
pub(super) fn add(rule: &mut Entries, preset: &Preset) {
    let is_action = |key: &str| ACTIONS.contains(&key);
    let acts = acts(rule);
    let replaces =
        acts && !preset.rule.0.keys().any(|key| is_action(key) && rule.contains_key(key));
    // The time is for the proof of the preset alone.
    let has_own_proof = rule.contains_key("verify");
    for (key, (_, node)) in &preset.rule.0 {
        let is_replaced = is_action(key) && acts && !rule.contains_key(key);
        let is_unused = is_replaced || (replaces && FILLED.contains(&key.as_str()));
        if !is_unused {
            let mut node = node.clone();
            if let (true, Tree::Table(verify)) = (key == "verify" && has_own_proof, &mut node.value)
            {
                verify.remove("timeout");
            }
            fill(rule, key, &node, &At::Preset(preset.name.clone()));
        }
    }
}

/// Adds what is missing.
fn fill(entries: &mut Entries, key: &str, node: &Node, at: &At) {
    match (entries.get_mut(key), &node.value) {
        (Some((_, Node { value: Tree::Table(own), .. })), Tree::Table(preset)) => {
            for (key, (_, node)) in preset {
                fill(own, key, node, at);
            }
        }
        (Some(_), _) => {}
        (None, _) => _ = entries.insert(key.to_owned(), (at.clone(), placed(node, at))),
    }
}

/// The node with another place.
fn placed(node: &Node, at: &At) -> Node {
    let value = match &node.value {
        Tree::List(nodes) => Tree::List(nodes.iter().map(|node| placed(node, at)).collect()),
        Tree::Table(entries) => {
            let entry = |(key, (_, node)): (&String, &(At, Node))| {
                (key.clone(), (at.clone(), placed(node, at)))
            };
            Tree::Table(collect::map(entries.iter().map(entry)))
        }
        value => value.clone(),
    };
    Node { at: at.clone(), value }
}
