//! One rule: the strip of its steps, what is wrong and a command for it, then the details and the history.

use super::changes;
use super::html::{Html, duration, time};
use super::strip::{Mark, Place, words};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::status::{PodStatus, RuleStatus, State, Status, VolumeStatus};

/// How it is with a rule: where its content is, and what would prevent the next action.
pub(super) fn mark(rule: &RuleStatus) -> Mark {
    let mark = Place::of(rule).mark;
    if rule.preflight.is_empty() { mark } else { mark.min(Mark::Open) }
}

/// Appends the rule with this number in the configuration.
pub(super) fn rule(html: &mut Html, status: &Status, number: usize, rule: &RuleStatus) {
    let now = status.now;
    let place = Place::of(rule);
    html.begin();
    let (class, sign, words) = (place.mark.class(), place.mark.sign(), words(rule));
    html.put("<section id=\"r%\">\n<h2>Rule % ", &[&number.to_string(), &rule.name]);
    html.put("<span class=\"%\">%%", &[class, sign, &words]);
    place.attempt().iter().for_each(|attempt| _ = html.put(", %", &[attempt]));
    html.put("</span></h2>\n", &[]);
    place.strip(html, rule, status.eager_sync.as_ref(), now);
    reasons(html, rule);
    if let Some(pod) = &status.pod {
        command(html, pod, rule, place.mark);
    }
    html.put("<dl>\n", &[]);
    digests(html, rule, now);
    if let Some(at) = rule.next_action_at {
        // A hold is only looked at again then.
        let next = if rule.state == State::Held { "check" } else { "action" };
        html.put("<dt>Next %</dt><dd>in % ", &[next, &duration(at.since(now))]);
        html.put("<span class=\"quiet\">at %</span></dd>\n", &[&time(at)]);
    }
    if let Some(at) = rule.paused_until {
        html.put("<dt>Paused</dt><dd>by a person, for another % ", &[&duration(at.since(now))]);
        html.put("<span class=\"quiet\">until %</span></dd>\n", &[&time(at)]);
    }
    let open = if mark(rule) == Mark::Good { "" } else { " open" };
    html.put("</dl>\n<details%><summary>Details and recent changes</summary>\n", &[open]);
    details(html, rule, now);
    changes::changes(html, &rule.changes, now);
    html.put("</details>\n</section>\n", &[]);
}

fn reasons(html: &mut Html, rule: &RuleStatus) {
    rule.reason.iter().for_each(|reason| html.why("Reason", reason));
    rule.not_ready.iter().for_each(|reason| html.why("Not ready", reason));
    if let Some(reason) = rule.slot.as_ref().and_then(|slot| slot.reason.as_ref()) {
        html.why("Slot", reason);
    }
    rule.preflight.iter().for_each(|problem| html.why("Problem", &problem.reason));
    for volume in &rule.volumes {
        volume.reason.iter().for_each(|reason| html.why(&volume.path, reason));
    }
}

/// What to run next, where a person is needed: what held content waits for, or where the application says why.
fn command(html: &mut Html, pod: &PodStatus, rule: &RuleStatus, mark: Mark) {
    let namespace = match &pod.namespace {
        Some(namespace) => format!(" -n {namespace}"),
        None => String::new(),
    };
    let pod = pod.name.clone() + &namespace;
    let (what, command) = match mark {
        _ if rule.state == State::Held => (
            "To act now",
            format!("kubectl exec {pod} -c podnudge -- podnudge approve {}", rule.name),
        ),
        Mark::Bad => ("Logs", format!("kubectl logs {pod} --all-containers --prefix --since=15m")),
        Mark::Open => ("Status", format!("kubectl exec {pod} -c podnudge -- podnudge status")),
        Mark::Good => return,
    };
    html.put("<p>%: <code class=\"copy\">%</code></p>\n", &[what, &command]);
}

/// The content that runs, and the one that should.
fn digests(html: &mut Html, rule: &RuleStatus, now: UnixTime) {
    let Some(wanted) = rule.digest_on_disk else { return };
    let text = format!("{wanted:.12}");
    match rule.digest_running {
        Some(running) if running == wanted => {
            html.put("<dt>Running</dt><dd><code>%</code>, as wanted", &[&text]);
        }
        running => {
            // What was applied last may run still.
            let (before, known) = match (running, rule.digest_applied) {
                (None, None) => ("unknown", None),
                (None, applied) => ("unknown, was ", applied),
                _ => ("", running),
            };
            let known = known.map_or_else(String::new, |digest| format!("{digest:.12}"));
            html.put("<dt>Running</dt><dd>%<code>%</code></dd>\n", &[before, &known]);
            html.put("<dt>Wanted</dt><dd><code>%</code>", &[&text]);
        }
    }
    if let Some(at) = rule.committed_at {
        html.put(", written ", &[]).ago(at, now);
    }
    html.put("</dd>\n", &[]);
}

fn details(html: &mut Html, rule: &RuleStatus, now: UnixTime) {
    let in_sync = match rule.in_sync {
        InSync::Yes => "yes",
        InSync::No => "no",
        InSync::Unknown => "unknown",
    };
    html.put("<dl>\n<dt>In sync</dt><dd>%", &[in_sync]);
    if rule.evidence != Evidence::None {
        html.put(" (%)", &[rule.evidence.name()]);
    }
    html.put("</dd>\n<dt>Target</dt><dd>", &[]);
    for (n, target) in rule.targets.iter().enumerate() {
        let comma = if n > 0 { ", " } else { "" };
        html.put("%% (pid %)", &[comma, &target.name, &target.pid.to_string()]);
    }
    let none = if rule.targets.is_empty() { "none" } else { "" };
    let action = rule.action.to_string();
    html.put(
        "%</dd>\n<dt>Action</dt><dd>%</dd>\n<dt>Proof</dt><dd>%</dd>\n<dt>Volumes</dt><dd>",
        &[none, &action, &rule.proof],
    );
    rule.volumes.iter().for_each(|one| volume(html, one, now));
    html.put("</dd>\n", &[]);
    if let Some(slot) = &rule.slot {
        html.put("<dt>Slot</dt><dd>%</dd>\n", &[slot.held.as_deref().unwrap_or("none")]);
    }
    if let Some(at) = rule.certificates_expire_at {
        html.put("<dt>Certificates expire</dt><dd>%</dd>\n", &[&time(at)]);
    }
    html.put("</dl>\n", &[]);
}

fn volume(html: &mut Html, volume: &VolumeStatus, now: UnixTime) {
    html.put("<p><code>%</code>", &[&volume.path]);
    match volume.committed_at {
        Some(at) => _ = html.put(" committed ", &[]).ago(at, now),
        None if volume.present => _ = html.put(" not read yet", &[]),
        None => _ = html.put(" <strong class=\"bad\">missing</strong>", &[]),
    }
    if volume.backend != "inotify" {
        html.put(", %", &[volume.backend]);
    }
    html.put("</p>", &[]);
}
