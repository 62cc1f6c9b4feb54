//! The requests about the Leases of the slots. What to do with them is decided by the core (`slots.rs` there).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::api::Api;
use super::call::{LEASES, Verb};
use podnudge_core::api_error::ApiError;
use podnudge_core::event::{ApiServer, RuleId};
use podnudge_core::objects::Line;
use podnudge_core::slots::{Lease, LeaseRequest};

/// The most bytes of a Lease. It has some 2 KiB, but whoever may write it can add 256 KiB of annotations, which JSON
/// may make six times as long: it would be a pity if nobody could act because of that.
const LARGEST_LEASE: usize = 2 * 1024 * 1024;
/// The longest line of a watch. A longer one ends it, and the Lease is read.
const LONGEST_LINE: usize = 512 * 1024;
/// How long the server is asked to keep a watch.
const WATCH_TIME: Duration = Duration::from_mins(5);

/// What comes of a watch: of which rule, which of its watches, and what.
pub type LeaseWatch = (RuleId, u32, LeaseSeen);

/// What a watch tells.
#[derive(Debug, PartialEq)]
pub enum LeaseSeen {
    /// The watch has begun.
    Opened,
    /// The Lease is like this now; `None` if it was deleted.
    State(Option<Arc<Lease>>),
    /// The watch has ended.
    Ended(Result<(), ApiError>),
}

impl LeaseSeen {
    /// What it says of the API server, if anything. A watch may break off on the way.
    #[must_use]
    pub fn api_server(&self) -> Option<ApiServer> {
        matches!(self, Self::Opened | Self::State(_)).then_some(ApiServer::Answers)
    }
}

impl Api {
    /// Reads or writes a Lease in the pod's namespace.
    ///
    /// # Errors
    /// If the server does not carry it out, or there is no answer within `limit`.
    pub async fn lease(&self, request: LeaseRequest, limit: Duration) -> Result<Lease, ApiError> {
        let (verb, body) = match &request {
            LeaseRequest::Read(_) => (Verb::Get, None),
            LeaseRequest::Create(lease) => (Verb::Create, Some(lease.body())),
            LeaseRequest::Update(lease) => (Verb::Update, Some(lease.body())),
            LeaseRequest::LineUp(_, next) => (Verb::Patch, Some(next.patch())),
            LeaseRequest::PassOn(pass) => (Verb::PatchIf, Some(pass.patch())),
        };
        let call = self.call(LEASES, request.name(), verb, Vec::new())?;
        let answer = self.send(&call, body, limit, LARGEST_LEASE).await?;
        Lease::parse(&answer).map_err(|reason| call.failed(&reason))
    }

    /// Watches a Lease, from its present state on, and sends what comes to `events`. `spread`, between 0 and 1, sets the
    /// time apart after which the server ends the watches of replicas.
    pub async fn watch_lease(
        &self,
        (rule, number): (RuleId, u32),
        name: &str,
        spread: f64,
        events: mpsc::Sender<LeaseWatch>,
    ) {
        let end = self.read_watch((rule, number), name, spread, &events).await;
        drop(events.send((rule, number, LeaseSeen::Ended(end))).await);
    }

    async fn read_watch(
        &self,
        (rule, number): (RuleId, u32),
        name: &str,
        spread: f64,
        events: &mpsc::Sender<LeaseWatch>,
    ) -> Result<(), ApiError> {
        let time = WATCH_TIME + WATCH_TIME.mul_f64(spread.clamp(0.0, 1.0));
        let query = vec![
            ("fieldSelector", format!("metadata.name={name}")),
            ("watch", "true".to_owned()),
            ("timeoutSeconds", time.as_secs().to_string()),
        ];
        let call = self.call(LEASES, name, Verb::Watch, query)?;
        let parse = |line: &[u8]| {
            let is_other = |seen: &LeaseSeen| matches!(seen, LeaseSeen::State(Some(lease)) if lease.name() != name);
            let seen = parse(line)?.filter(|seen| !is_other(seen));
            Ok(seen.map(|seen| (rule, number, seen)))
        };
        let opened = (rule, number, LeaseSeen::Opened);
        self.watch(&call, (time, LONGEST_LINE), opened, parse, events).await
    }
}

/// Reads a line; `None` for what says nothing of the Lease.
pub(super) fn parse(line: &[u8]) -> Result<Option<LeaseSeen>, ApiError> {
    Ok(match Line::parse(line)? {
        Some(Line::Present(object)) => {
            let lease = Lease::of(object).map_err(ApiError::Unusable)?;
            Some(LeaseSeen::State(Some(Arc::new(lease))))
        }
        Some(Line::Deleted(_)) => Some(LeaseSeen::State(None)),
        Some(Line::Bookmark(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, object: &str) -> Result<Option<LeaseSeen>, ApiError> {
        parse(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes())
    }

    #[test]
    fn a_line_tells_the_lease_its_deletion_or_the_end_of_the_watch() {
        let lease =
            r#"{"metadata":{"name":"web-0","resourceVersion":"7"},"spec":{"holderIdentity":"a"}}"#;
        for kind in ["ADDED", "MODIFIED"] {
            let Ok(Some(LeaseSeen::State(Some(seen)))) = event(kind, lease) else {
                unreachable!("it is there")
            };
            assert_eq!((seen.version(), seen.holder()), ("7", Some("a")));
        }
        assert_eq!(event("DELETED", lease), Ok(Some(LeaseSeen::State(None))));
        assert_eq!(event("BOOKMARK", lease), Ok(None));
        for (code, is_gone) in [(410, true), (500, false)] {
            let ended = event("ERROR", &format!(r#"{{"code":{code},"message":"x\u001b"}}"#));
            assert_eq!(matches!(ended, Err(ApiError::Gone(_))), is_gone, "{ended:?}");
        }
        for line in ["", "[]", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":{}}"#] {
            assert!(matches!(parse(line.as_bytes()), Err(ApiError::Unusable(_))), "{line}");
        }
    }
}
