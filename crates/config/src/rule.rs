//! `[[rule]]`: watched volumes, a target, and the actions to take. Pure.

use nix::sys::signal::Signal;

use super::action::{Action, OnFailure, Restart, RestartOf, SignalAction};
use super::agent::Agent;
use super::check::{self, Check, CheckSettings, Condition};
use super::drain;
use super::expand::Expand;
use super::hold::Hold;
use super::keys::KeyFilter;
use super::limit::{Limit, OnUnreachable};
use super::pod_end;
use super::prelude::*;
use super::preset::{self, Preset, Unresolved};
use super::problem::At;
use super::program::ExecAction;
use super::publish::{self, Publish};
use super::request::{Endpoint, HttpSettings};
use super::risk::Risk;
use super::settings;
use super::socket::SocketCommand;
use super::target::{Target, TargetBy};
use super::verify::{ProofBy, Verify, VerifySettings};
use podnudge_core::backoff::Retry;
use podnudge_core::collect;
use podnudge_core::jitter::Jitter;
use podnudge_core::{DrainPolicy, OnStart};

/// The default of `settle`.
const SETTLE: Duration = Duration::from_millis(200);

settings! {
    /// Watched volumes, a target, and the actions to take.
    pub struct RuleSettings = "[[rule]]"; validated {
        /// The rule's name in metrics and status: 1 to 63 lower-case letters, digits and hyphens. Required if there are several rules.
        name: Option<String> = optional("`default`", checked("a name", parsers::rule_name));
        /// A mounted volume, a directory or a file to watch.
        watch: Vec<PathBuf> = required_list("watch = [\"/etc/nginx/conf.d\"]", path_by(parsers::watched_path)).option("watch", "PATH", Volumes).common();
        /// Count only keys that match, such as `*.conf`.
        only: Vec<glob::Pattern> = list("all keys count", glob()).option("only", "GLOB", Volumes);
        /// Do not count keys that match, such as `*.md`.
        ignore: Vec<glob::Pattern> = list("", glob()).option("ignore", "GLOB", Volumes);
        /// Take the actions and proofs of this preset; the rule's own settings take precedence. A rule without an action takes the preset of its target's program. `podnudge presets` lists them.
        preset: Option<String> = optional("", checked("a preset", preset::parse_name)).option("preset", "NAME", Actions).common();
        /// Warnings of the preflight that describe what is wanted here: they are not reported.
        accept: Vec<Risk> = list("", choice()).option("accept", "PROBLEM", Actions);
        /// The most bytes of all keys of a volume. One with more is unreadable.
        max_bytes: u32 = default("67108864", number(1, u32::MAX));
        /// How long the volumes must be unchanged before they are read. If it is not set, they are read at once when each has had a commit of the kubelet.
        settle: Option<Duration> = optional("`200ms`, but not at a commit", duration(ZERO, MINUTE.saturating_mul(5))).option("settle", "TIME", Volumes);
        /// The longest time to wait for a volume to stop changing.
        settle_max: Duration = default("5s", duration(ZERO, MINUTE.saturating_mul(10))).option("settle-max", "TIME", Volumes);
        /// The shortest time between two actions; if they restart the target, between two restarts. With the default, the kubelet does not delay the start of a container.
        min_interval: Option<Duration> = optional("`0s`; `11m` between two restarts of a container", duration(ZERO, DAY)).option("min-interval", "TIME", Timing);
        /// What to do if the application does not run the new content after the first attempt: `retry` the actions, then `restart` the target.
        on_failure: Vec<OnFailure> = list("`retry`; nothing if podnudge publishes and rolls back", choice()).resolved();
        /// Whether to act on the content that is found at start: if it is newer than the target, never or always. Not valid with `[rule.publish]`.
        on_start: Option<OnStart> = optional("`if-newer`; `always` with `[rule.expand]`", choice()).option("on-start", "WHEN", Timing).resolved();
        /// When not to begin a rollout.
        hold: Hold = table();
        /// How many replicas act at the same time.
        limit: Option<Limit> = optional_table();
        /// A wait before each action, which spreads replicas over time.
        jitter: Jitter = table_or("window");
        /// How to retry after a failure.
        retry: Retry = table();
        /// Checks that content must pass before it is used.
        check: Vec<CheckSettings> = tables_or("by");
        /// A directory that the application reads instead of the volumes.
        publish: Option<Publish> = optional_table_or("dir");
        /// Write a file of the volumes for the application, decompressed and with environment variables in it.
        expand: Option<Expand> = optional_table();
        /// The process to act on.
        target: Target = table_or("process");
        /// Send a signal to the target.
        signal: Option<SignalAction> = optional_table_or("name");
        /// Send an HTTP request.
        http: Option<HttpSettings> = optional_table_or("url");
        /// Run a program in podnudge's container.
        exec: Option<ExecAction> = optional_table();
        /// The environment variables that the rule's programs get besides `PATH`, `HOME`, `LANG`, `LC_*`, `TZ` and `TMPDIR`, such as `PG*`.
        pass_environment: Vec<glob::Pattern> = list("", glob());
        /// Send a command to a socket.
        command: Option<SocketCommand> = optional_table();
        /// Restart the target: end it, so that the kubelet or its supervisor starts it again. Or restart the pod.
        restart: Option<Restart> = optional_table_or("what").option("restart", "", Actions);
        /// Take the pod out of its Services before an action.
        drain: Option<DrainPolicy> = optional_table();
        /// How to verify that the application runs the new content.
        verify: VerifySettings = table();
        /// The rule's place in the file.
        path: String = computed();
    }
}

impl RuleSettings {
    fn validate(&mut self, place: &Place<'_>) {
        self.path.clone_from(&place.path);
        if let Some(settle) = &mut self.settle {
            place.in_order(("settle", settle), ("settle-max", &mut self.settle_max));
        }
        if !place.has("on-failure") {
            self.on_failure = vec![OnFailure::Retry];
        }
        if place.has("on-start") && place.has("publish") {
            let reason = Reason::new("`on-start` cannot be combined with `[rule.publish]`");
            let hint =
                "leave it out: the publish directory shows what the application can have read";
            place.problem(Key("on-start"), reason.hint(hint));
        }
    }
}

/// A rule, with everything that follows from its settings.
#[derive(Debug)]
pub struct Rule {
    /// Unique; a DNS label, so that it can be used in metrics and file names.
    pub name: String,
    /// The settings of the file, with the defaults filled in.
    pub settings: RuleSettings,
    /// Selects the keys that count.
    pub keys: KeyFilter,
    /// The checks of new content, in the order of the file.
    pub checks: Vec<Check>,
    /// The actions, in the order of the file. None until a preset was chosen.
    pub actions: Vec<Action>,
    /// How to restart the target, if an action or `on-failure` does.
    pub restart: Restart,
    /// How to verify that the application runs the new content.
    pub verify: Verify,
    /// The preset that it was made with.
    pub preset: Option<&'static Preset>,
    /// Set if the rule has no action of its own.
    pub(super) unresolved: Option<Unresolved>,
}

impl Rule {
    /// `None` only after a problem was reported.
    pub(super) fn new(
        mut settings: RuleSettings,
        place: &Place<'_>,
        agent: &Agent,
    ) -> Option<Self> {
        settings.validate_with(place, agent);
        if settings.publish.is_none() {
            settings.on_start.get_or_insert(Expand::on_start(settings.expand.as_ref()));
        }
        let actions = actions(&mut settings, place);
        pod_end::validate(
            place,
            settings.restart.as_ref(),
            &settings.on_failure,
            settings.on_start,
            agent,
        );
        if settings.on_failure.contains(&OnFailure::Restart) {
            settings.restart = settings.restart.or_else(settings::defaults);
        }
        let checks = settings.check.iter().filter_map(|check| check.resolved.clone());
        let mut checks: Vec<_> = settings.expand.iter().map(Check::expands).chain(checks).collect();
        let preset = settings.preset.as_deref().and_then(|name| preset::preset(name).ok());
        if preset.is_some() || !actions.is_empty() {
            let of_target = || match &settings.target.by {
                TargetBy::Process(name) => Preset::of_program(name),
                _ => None,
            };
            let filled = check::fill(&mut checks, preset.or_else(of_target));
            filled.unwrap_or_else(|reason| place.problem(Key("check"), reason));
        }
        let verify = settings.verify.resolve(place, &actions);
        let keys = KeyFilter {
            only: settings.only.clone(),
            ignore: settings.ignore.clone(),
            pause: settings.hold.pause_key.clone(),
            most_bytes: u64::from(settings.max_bytes),
        };
        let mut rule = Self {
            name: settings.name.clone()?,
            keys,
            checks,
            actions,
            restart: settings.restart.or_else(settings::defaults)?,
            verify,
            preset,
            unresolved: None,
            settings,
        };
        // Without a slot, a pod that is not Ready for a while may be one of many.
        let by_default =
            if rule.may_interrupt() { OnUnreachable::Wait } else { OnUnreachable::Act };
        if let Some(limit) = &mut rule.settings.limit {
            limit.resolve(by_default);
        }
        if let Some(reason) = rule.unproven_restart("if the target runs") {
            place.inner("limit").warn(Value("lease"), reason);
        }
        Some(rule)
    }

    /// How long what is not put in place by one commit must be unchanged before it is read.
    #[must_use]
    pub fn settle(&self) -> Duration {
        self.settings.settle.unwrap_or(SETTLE.min(self.settings.settle_max))
    }

    /// Why the next replica may be restarted too early if the target runs below `podnudge supervise`, which
    /// `place` says.
    #[must_use]
    pub fn unproven_restart(&self, place: &str) -> Option<Reason> {
        let restarts =
            self.restarts_target() || self.settings.on_failure.contains(&OnFailure::Restart);
        let is_proven = !self.verify.proofs.is_empty() || self.accepts("restart-unproven");
        self.settings.limit.as_ref()?.unproven(place).filter(|_| restarts && !is_proven)
    }

    /// Whether the rule has a target process: an action needs one, or the settings name one, which
    /// podnudge then waits for and watches.
    #[must_use]
    pub fn names_process(&self) -> bool {
        let is_named = !matches!(self.settings.target.by, TargetBy::Mount);
        is_named || self.awaits_preset() || self.actions.iter().any(Action::needs_process)
    }

    /// Whether some keys do not count.
    #[must_use]
    pub fn has_key_filter(&self) -> bool {
        !self.keys.only.is_empty() || !self.keys.ignore.is_empty()
    }

    /// Whether a problem of the preflight is wanted, by its name.
    #[must_use]
    pub fn accepts(&self, problem: &str) -> bool {
        let name = |risk: &Risk| (Risk::TYPE.print)(risk);
        self.settings.accept.iter().any(|risk| name(risk) == problem)
    }

    /// The endpoints of all requests of the rule.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let actions = self.actions.iter().filter_map(|action| match action {
            Action::Http(http) => Some(&http.endpoint),
            _ => None,
        });
        let proofs = self.verify.proofs.iter().filter_map(|proof| match proof {
            ProofBy::Http(http) => Some(&http.endpoint),
            _ => None,
        });
        let checks = self.checks.iter().filter_map(|check| match &check.condition {
            Condition::Http(http) => Some(&http.endpoint),
            _ => None,
        });
        actions.chain(proofs).chain(checks)
    }

    /// The signal that only a process that handles it gets, if there is one such target.
    #[must_use]
    pub fn checked_signal(&self) -> Option<Signal> {
        self.actions.iter().find_map(|action| match action {
            Action::Signal(signal) if !signal.allow_unhandled && !self.settings.target.all => {
                Some(signal.name)
            }
            _ => None,
        })
    }

    /// Whether new child processes are one of the proofs.
    #[must_use]
    pub fn proves_by_children(&self) -> bool {
        self.verify.proofs.iter().any(|proof| matches!(proof, ProofBy::ChildrenNewer))
    }

    /// Whether a restart is one of the actions.
    #[must_use]
    pub fn restarts_target(&self) -> bool {
        self.actions.iter().any(Action::restarts)
    }
}

impl RuleSettings {
    /// Whether it has podnudge's own pod evicted.
    #[must_use]
    pub fn evicts(&self) -> bool {
        self.restart.is_some_and(|restart| restart.what == RestartOf::Evict)
    }

    /// Checks the settings against those of podnudge itself.
    fn validate_with(&mut self, place: &Place<'_>, agent: &Agent) {
        let places = place.valid_values("watch");
        for (n, (path, at)) in self.watch.iter().zip(&places).enumerate() {
            let shown = path_literal(path);
            if self.watch.iter().take(n).any(|other| other == path) {
                let reason = Reason::new(format!("{shown} is watched twice"));
                place.report.problem(at, reason.hint("keep one of them"));
            }
            if agent.state_dir.as_ref().is_some_and(|state| state.starts_with(path)) {
                let reason = Reason::new(format!("the state directory is inside {shown}"));
                place.report.problem(at, reason.hint("put `state-dir` on a volume of its own"));
            }
        }
        self.hold.validate_with(&place.inner("hold"), &self.check);
        if let Some(drain) = &self.drain {
            let restarts = self.restart.is_some_and(|restart| restart.what != RestartOf::Evict);
            let may_restart =
                restarts || self.on_failure.contains(&OnFailure::Restart) || self.preset.is_some();
            let place = place.inner("drain");
            drain::validate_with(drain, &place, agent, may_restart);
            drain::validate_turns(drain, &place, self.limit.as_ref().and_then(|limit| limit.turn));
        }
        if let Some(expand) = &self.expand {
            expand.validate_with(place, &self.watch, self.on_start, self.restart.as_ref());
        }
        if let Some(publish) = &mut self.publish {
            publish.validate_with(&place.inner("publish"), &self.watch, agent);
            // The default: roll back first.
            if publish.rollback && !place.has("on-failure") {
                self.on_failure = Vec::new();
            }
        }
        if let Some(reason) = self.wrong_body() {
            place.inner("http").problem(Value("body-file"), reason);
        }
    }
}

/// The actions of a rule: those of the file in its order, then those of options and environment variables, in the order
/// of `ACTIONS`.
fn actions(rule: &mut RuleSettings, place: &Place<'_>) -> Vec<Action> {
    if rule.on_failure.windows(2).any(|steps| steps != [OnFailure::Retry, OnFailure::Restart]) {
        let reason =
            Reason::new("the steps of `on-failure` are `retry`, then `restart`, each at most once");
        let hint = "write `on-failure = [\"retry\", \"restart\"]`";
        place.problem(Value("on-failure"), reason.hint(hint));
    }
    let is_last_resort = rule.on_failure.contains(&OnFailure::Restart);
    let http = rule.http.as_mut().map(|http| http.resolve(&place.inner("http")));
    let actions = [
        rule.signal.map(Action::Signal),
        http.map(|http| Action::Http(Box::new(http))),
        rule.exec.as_ref().map(|exec| Action::Exec(exec.program())),
        rule.command.clone().map(Action::Command),
        // As the last resort, a restart is not an action.
        rule.restart.filter(|_| !is_last_resort).map(Action::of_restart),
    ];
    let mut actions: Vec<Action> = actions.into_iter().flatten().collect();
    collect::sort(&mut actions, |action| match place.key(action.key()) {
        Some(At::File(byte)) => byte,
        _ => usize::MAX,
    });
    let after_restart = actions.iter().skip_while(|action| !action.restarts()).nth(1);
    if let Some(action) = after_restart {
        let message = format!("`{}` is never performed: it follows a restart", action.key());
        let hint = "put it before the restart, or leave one of them out";
        place.warn(Spot::Key(action.key()), Reason::new(message).hint(hint));
    }
    actions
}

/// Checks the rules against each other.
pub(super) fn validate_all(rules: &mut [RuleSettings], root: &Place<'_>) {
    if !root.has("rule") || root.has_empty_list("rule") {
        let reason = Reason::new("there is no rule");
        let hint = "add `[[rule]]` with `watch = [\"/etc/app\"]`, and below it `[rule.signal]` with \
                    `name = \"HUP\"`";
        root.report.problem(&At::File(0), reason.hint(hint));
    }
    let is_alone = rules.len() == 1;
    let mut names: Vec<(String, At)> = Vec::new();
    for rule in &mut *rules {
        let place = root.at_path(&rule.path);
        let Some(name) = rule.name.clone() else {
            if is_alone {
                rule.name = Some("default".to_owned());
            } else if !place.has("name") {
                let reason =
                    Reason::new("this rule needs a `name`, because there are several rules");
                let hint =
                    "give each a name, such as `name = \"nginx\"`: metrics and status show it";
                place.problem(Spot::Table, reason.hint(hint));
            }
            continue;
        };
        if let Some((_, first)) = names.iter().find(|(other, _)| *other == name) {
            let first = root.report.place(first);
            let reason = Reason::new(format!("a second rule is named {}", literal(&name)));
            place.problem(Value("name"), reason.hint(format!("the first is at {first}")));
        }
        names.push((name, place.at(Value("name"))));
    }
    publish::validate_directories(rules.iter().filter_map(|rule| {
        let dir = rule.publish.as_ref()?.dir.as_path();
        Some((root.at_path(&rule.path).inner("publish"), dir))
    }));
}
