//! Answers the requests of the admin port, and logs the status on USR1.

use tracing::{info, warn};

use super::agent::Agent;
use super::clock;
use crate::admin::server::AdminRequest;
use crate::core::event::{Event, RuleId};

impl Agent {
    pub(super) fn answer(&mut self, request: AdminRequest) {
        // A client that has disconnected does not concern the loop.
        match request {
            AdminRequest::Status(reply) => drop(reply.send(self.core.status(clock::now()))),
            AdminRequest::Reload { rule, reply } => {
                let named = |name: &String| self.config.rules.iter().position(|r| r.name == *name);
                let known = match &rule {
                    None => Some(None),
                    Some(name) => named(name).map(|n| Some(RuleId(n))),
                };
                if let Some(rule) = known {
                    self.handle_event(Event::Trigger(rule));
                }
                _ = reply.send(known.is_some());
            }
        }
    }

    pub(super) fn dump_status(&self) {
        let status = self.core.status(clock::now());
        match serde_json::to_string(&status) {
            Ok(status) => info!(event = "status", status, "requested by USR1"),
            Err(error) => warn!(event = "status", %error, "cannot serialize the status"),
        }
    }
}
