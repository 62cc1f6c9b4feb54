//! Answers the requests of the admin port, and logs the status on USR1.

use tracing::{info, warn};

use super::agent::Agent;
use super::clock;
use crate::admin::order::Order;
use crate::admin::server::{AdminRequest, NotDone};
use crate::process;
use crate::system::stderr;
use podnudge_core::event::{Event, RuleId};
#[cfg(feature = "compat")]
use podnudge_core::status::Reloads;
use podnudge_core::status::Status;

/// What the loop counts.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The lost lines of the log that were reported.
    pub(super) log_lines_dropped: u64,
    /// The attempts of each rule to reload.
    #[cfg(feature = "compat")]
    pub(super) reloads: Vec<Reloads>,
}

impl Agent {
    pub(super) fn answer(&mut self, request: AdminRequest) {
        // A client that has disconnected does not concern the loop.
        match request {
            AdminRequest::Status(reply) => drop(reply.send(self.status())),
            AdminRequest::Health(reply) => drop(reply.send(self.health())),
            // Who has got no answer in time repeats the order.
            AdminRequest::Order { reply, .. } if reply.is_closed() => {}
            AdminRequest::Order { order, rule, reply } => {
                let named = |name: &String| self.config.rules.iter().position(|r| r.name == *name);
                let known = match &rule {
                    None => Some(None),
                    Some(name) => named(name).map(|n| Some(RuleId(n))),
                };
                let all = || {
                    let all = self.config.rules.iter().map(|rule| format!("`{}`", rule.name));
                    all.collect::<Vec<_>>().join(", ")
                };
                let refused = match known {
                    None => Some(NotDone::NoSuchRule(all())),
                    Some(rule) => self.carry_out(order, rule),
                };
                _ = reply.send(refused);
            }
        }
    }

    /// Does what a person asks for. Returns why not, if so.
    fn carry_out(&mut self, order: Order, rule: Option<RuleId>) -> Option<NotDone> {
        match order {
            Order::Trigger => self.handle_event(Event::Trigger(rule)),
            Order::Pause(time) => self.handle_event(Event::Pause(rule, Some(time))),
            Order::Resume => self.handle_event(Event::Pause(rule, None)),
            Order::Approve => {
                let is_held =
                    |id: &RuleId| rule.is_none_or(|rule| rule == *id) && self.core.is_held(*id);
                let held: Vec<RuleId> = (0..self.rules.len()).map(RuleId).filter(is_held).collect();
                if held.is_empty() {
                    return Some(NotDone::NothingHeld);
                }
                for rule in held {
                    self.handle_event(Event::Trigger(Some(rule)));
                }
            }
        }
        None
    }

    /// The status of the core.
    fn health(&mut self) -> Status {
        #[cfg_attr(not(feature = "compat"), expect(unused_mut, reason = "there are no counts"))]
        let mut status = self.core.status(clock::now());
        #[cfg(feature = "compat")]
        {
            status.reloads = self.reloads(&status);
        }
        status
    }

    /// The status of the core, with the target processes that run now, the history, and the log's losses.
    fn status(&mut self) -> Status {
        let mut status = self.health();
        status.log_lines_dropped = stderr::dropped();
        status.eager_sync = self.api.eager_sync();
        #[cfg(feature = "page")]
        {
            status.pod = Some(self.pod.clone());
            for (n, rule) in status.rules.iter_mut().enumerate() {
                rule.changes = self.facts.history.changes(RuleId(n), rule.state);
            }
        }
        for (rule, state) in status.rules.iter_mut().zip(&self.rules) {
            rule.targets = process::running_targets(&self.context, &state.config);
            state.digests.apply(rule);
        }
        status
    }

    pub(super) fn dump_status(&mut self) {
        #[cfg_attr(not(feature = "page"), expect(unused_mut, reason = "there are no changes"))]
        let mut status = self.status();
        // The log has them already.
        #[cfg(feature = "page")]
        status.rules.iter_mut().for_each(|rule| rule.changes.clear());
        match serde_json::to_string(&status) {
            Ok(status) => info!(event = "status", status, "requested by USR1"),
            Err(error) => warn!(event = "status", %error, "cannot serialize the status"),
        }
    }
}
