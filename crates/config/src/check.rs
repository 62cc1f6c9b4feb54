//! `[[rule.check]]`: conditions that content must meet before it is used. Pure.

use http::Method;
use http::header::HeaderValue;

use super::expand::Expand;
use super::prelude::*;
use super::preset::Preset;
use super::program::{Program, argument, validate_program};
use super::request::{
    Access, HttpCheck, REQUEST_KEYS, content_type, method_with_body, refuse_content_type,
};

settings! {
    /// A condition that content must meet before it is used. Content that does not is rejected, and the application keeps what it has.
    pub struct CheckSettings = "[[rule.check]]",
        &[
            Relation::AtMostOne(&CONDITIONS),
            Relation::AtLeastOne(&CONDITIONS, "the check has no condition", "add one of `by`, `syntax`, `required-keys`, `max-bytes`, `not-empty`, `exec`, `http`"),
            Relation::AtMostOne(&["keys", "required-keys"]),
            Relation::AtMostOne(&["keys", "exec"]),
            Relation::AtMostOne(&["keys", "by"]),
            Relation::Needs(&["timeout"], &["by", "exec", "http"]),
            Relation::Needs(&["method", "content-type", "expect"], &["http"]),
            Relation::Needs(&REQUEST_KEYS, &["http"]),
        ];
        validated
    {
        /// The program that `podnudge presets NAME` shows for the rule's preset checks the content.
        by: Option<CheckBy> = optional("", choice()).option("check", "BY", Checks);
        /// The keys to check.
        keys: Vec<glob::Pattern> = list("all keys that count", glob());
        /// Each key must be valid JSON, YAML or TOML; or with `pem`, certificates and private keys that are valid now and belong together.
        syntax: Option<Syntax> = optional("", choice());
        /// Keys that must exist.
        required_keys: Vec<String> = optional_list(checked("a key", parsers::key));
        /// All keys together must not have more bytes than this.
        max_bytes: Option<u32> = optional("", number(1, u32::MAX));
        /// No key may be empty.
        not_empty: Option<bool> = optional("", boolean());
        /// Content is rejected unless this program exits with 0. In its arguments, `{dir}` is a copy of the first volume, and `{root}` is a directory with a copy of each volume at its own path. The option is split at blanks.
        exec: Vec<String> = optional_list(checked("an argument", argument)).option("check-exec", "COMMAND", Checks).split();
        /// Content is rejected unless this URL accepts each key's content, sent in a request.
        http: Option<url::Url> = optional("", url());
        /// The time limit for the program, or for one request.
        timeout: Duration = default("10s", time_limit(MINUTE.saturating_mul(10)));
        /// The method of the request.
        method: Method = default("POST", method_with_body());
        /// The content type of the request.
        content_type: HeaderValue = default("text/plain", content_type());
        /// The statuses that mean success.
        expect: Vec<u16> = list("any status from 200 to 299", status());
        /// Credentials, headers and certificates.
        access: Access = flatten();
        /// The check that these settings describe.
        resolved: Option<Check> = computed();
    }
}

const CONDITIONS: [&str; 7] =
    ["by", "syntax", "required-keys", "max-bytes", "not-empty", "exec", "http"];

words! {
    /// Whose check it is.
    pub enum CheckBy {
        /// The check of the rule's preset.
        Preset = "preset",
        /// No program, not even that of the preset.
        None = "none",
    }
}

words! {
    /// The formats that podnudge can parse.
    pub enum Syntax {
        /// RFC 8259.
        Json = "json",
        /// YAML 1.2, one document or several.
        Yaml = "yaml",
        /// TOML 1.0.
        Toml = "toml",
        /// Certificates and private keys, RFC 7468: valid now, and belonging together. Only with TLS.
        Pem = "pem",
    }
}

/// One condition that the content of a rule's volumes must meet.
#[derive(Debug, Clone)]
pub struct Check {
    /// The keys to check; empty: all.
    pub keys: Vec<glob::Pattern>,
    /// The condition.
    pub condition: Condition,
}

/// The condition of a check.
#[derive(Debug, Clone)]
pub enum Condition {
    /// Every key has content.
    NotEmpty,
    /// All keys of a list exist.
    RequiredKeys(Vec<String>),
    /// All keys together hold at most this many bytes.
    MaxBytes(u64),
    /// Every key can be parsed.
    Syntax(Syntax),
    /// A program must exit with 0. In its arguments, `{dir}` stands for the copy of the first volume,
    /// `{root}` for the directory below which each volume's copy is at the volume's own path. Without arguments,
    /// it is that of a preset that was not chosen yet.
    Exec(Program),
    /// A URL must accept each key's content.
    Http(Box<HttpCheck>),
    /// The file can be decompressed, and all variables in it are set.
    Expands(Box<Expand>),
}

impl Check {
    /// The check that belongs to `[rule.expand]`.
    pub(super) fn expands(expand: &Expand) -> Self {
        Self { keys: Vec::new(), condition: Condition::Expands(Box::new(expand.clone())) }
    }

    /// Whether it may need so much memory that the kernel ends podnudge: what is expanded is bounded.
    #[must_use]
    pub fn may_end_podnudge(&self) -> bool {
        !matches!(self.condition, Condition::Expands(_))
    }

    /// Whether it checks certificates.
    #[must_use]
    pub fn checks_certificates(&self) -> bool {
        matches!(self.condition, Condition::Syntax(Syntax::Pem))
    }
}

/// Completes the checks by the preset's program.
///
/// # Errors
/// If there is no such program.
pub(super) fn fill(checks: &mut [Check], preset: Option<&Preset>) -> Result<(), Reason> {
    for check in checks {
        let Condition::Exec(program) = &mut check.condition else { continue };
        if !program.arguments.is_empty() {
            continue;
        }
        program.arguments = match preset {
            Some(preset) if !preset.check.is_empty() => preset.check.clone(),
            Some(Preset { name, .. }) => {
                let reason = Reason::new(format!("the preset `{name}` has no check"));
                return Err(reason.hint("leave it out, or add another check"));
            }
            None => {
                let reason = Reason::new("the rule has no preset, whose check it could use");
                return Err(reason.hint("set `preset`, or name the program: `exec`"));
            }
        };
    }
    Ok(())
}

impl CheckSettings {
    /// Whether a program or a URL gets the content.
    pub(super) fn is_external(&self) -> bool {
        !self.exec.is_empty() || self.http.is_some() || self.by == Some(CheckBy::Preset)
    }

    fn validate(&mut self, place: &Place<'_>) {
        if self.syntax == Some(Syntax::Pem) && !cfg!(feature = "tls") {
            let reason = Reason::new("this podnudge was built without TLS, and cannot read PEM");
            place.problem(Value("syntax"), reason.hint("use the image with TLS"));
        }
        if self.not_empty == Some(false) {
            let reason = Reason::new("`not-empty` can only be `true`");
            place.problem(Key("not-empty"), reason.hint("leave the check out"));
        }
        validate_program(place, "exec", &self.exec);
        refuse_content_type(&self.access, place);
        let condition = self.condition(place);
        self.resolved = (self.by != Some(CheckBy::None))
            .then_some(Check { keys: self.keys.clone(), condition });
    }

    fn condition(&mut self, place: &Place<'_>) -> Condition {
        if let Some(syntax) = self.syntax {
            Condition::Syntax(syntax)
        } else if let Some(most) = self.max_bytes {
            Condition::MaxBytes(u64::from(most))
        } else if self.not_empty == Some(true) {
            Condition::NotEmpty
        } else if let Some(url) = self.http.clone() {
            let endpoint = self.access.endpoint(place, ("http", &url), self.timeout);
            // `endpoint` has warned of unencrypted credentials already.
            if endpoint.auth.is_none() && self.access.is_sent_unencrypted(&url) {
                let reason = Reason::new("the content is sent over the network unencrypted");
                place.warn(Value("http"), reason.hint("use https"));
            }
            Condition::Http(Box::new(HttpCheck {
                endpoint,
                method: self.method.clone(),
                content_type: self.content_type.clone(),
                expect: self.expect.clone(),
            }))
        } else if self.exec.is_empty() && self.by.is_none() {
            Condition::RequiredKeys(self.required_keys.clone())
        } else {
            Condition::Exec(Program { arguments: self.exec.clone(), timeout: self.timeout })
        }
    }
}
