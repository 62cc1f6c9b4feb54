//! The drain of a rule, by which the pod leaves its Services before an action, and the looks whether it is out of them,
//! or serves again.

use std::time::Duration;

use super::drain::Drain;
use super::{Looked, Permit};
use crate::clock::Moment;
use crate::command::PodIs;
use crate::event::{ApiServer, PodLook};
use crate::policy::PermitPolicy;
use crate::snapshot::Digest;

impl Permit {
    pub(crate) fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Whether the pod is to get no requests.
    pub(crate) fn is_out(&self) -> bool {
        self.drain.began().is_some()
    }

    /// Until when the endpoints on the nodes may be old.
    pub(crate) fn late_until(&self, now: Moment) -> Option<Moment> {
        self.outage.late_until(now)
    }

    /// Another rollout needs the drain from now on, with all of its time.
    pub(crate) fn taken_over(&mut self, now: Moment) {
        self.drain.taken_over(now);
    }

    /// Asks whether the Services have the pod.
    pub(crate) fn ask_services(&mut self, now: Moment) {
        self.drain = Drain::ask(now);
    }

    /// Takes the pod out of its Services. `is_watched`: whether to look if they follow.
    pub(crate) fn begin_drain(&mut self, now: Moment, is_watched: bool) {
        self.drain = Drain::begin(now, is_watched);
    }

    /// Continues the drain of an earlier podnudge. `has_acted`: whether that has acted since.
    pub(crate) fn restore_drain(
        &mut self,
        since: Moment,
        now: Moment,
        has_acted: bool,
        policy: &PermitPolicy,
    ) {
        let is_watched = policy.looks_at_services() && !has_acted;
        self.drain = Drain::restored(since, now, is_watched);
    }

    /// Lets the pod go back into its Services, if it was out.
    pub(crate) fn end_drain(&mut self, now: Moment, policy: &PermitPolicy) {
        if std::mem::take(&mut self.drain).began().is_some() {
            let content = self.slot.claimed().claim().map(|(digest, _)| digest);
            self.returns_to_services(now, content, policy);
        }
    }

    /// The pod, which was out of its Services for this content, goes back. The next replica must not follow before it
    /// is back.
    pub(crate) fn returns_to_services(
        &mut self,
        now: Moment,
        content: Option<Digest>,
        policy: &PermitPolicy,
    ) {
        if let Some((digest, policy)) = content.zip(policy.slot) {
            self.used.keep_until_serving(digest, now, policy);
        }
    }

    /// The looks at the pod that begin now.
    pub(crate) fn take_looks(&mut self, now: Moment) -> impl Iterator<Item = (u32, PodIs)> + use<> {
        let drain = self.drain.take_look(now, &mut self.last_look);
        let slot = self.used.take_look(now, &mut self.last_look);
        drain.into_iter().chain(slot.map(|number| (number, PodIs::Serving)))
    }

    /// Takes the answer to the look with this number. `share` differs between replicas.
    pub(crate) fn looked(
        &mut self,
        now: Moment,
        (number, look): (u32, PodLook),
        share: u32,
        policy: &PermitPolicy,
    ) -> Looked {
        let wait = policy.drain.as_ref().map_or(Duration::ZERO, |drain| drain.wait);
        let times = (wait, self.late_until(now));
        if let Some(left) = self.drain.looked(now, (number, look.clone()), share, times) {
            return Looked::Left(left);
        }
        let slot = policy.slot;
        let unknown = slot.and_then(|policy| self.used.looked(now, number, look, share, policy));
        unknown.map_or(Looked::Nothing, Looked::Unknown)
    }

    /// A request has found the API server so.
    pub(crate) fn api_server_seen(&mut self, now: Moment, server: ApiServer) {
        self.outage.observe(now, server);
    }

    /// When there is something to do without an event.
    pub(crate) fn next_wakeup(&self) -> Option<Moment> {
        self.used.next_wakeup().into_iter().chain(self.drain.next_wakeup()).min()
    }
}
