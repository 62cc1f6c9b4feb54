//! One rule: from what is on disk to what the application runs.
//!
//! Two things go on at the same time. The look (`look.rs`) keeps track of what is on disk; the
//! delivery (`delivery.rs` says where it can be) brings it to the application. They meet in two
//! places: [`Rule::reconcile`] compares what is on disk with what the delivery is busy with, and
//! [`Rule::fire_if_due`] begins an action, but not while a look is under way that may know better.

use std::collections::VecDeque;

use super::changed::Known;
use super::delivery::{Attempt, Phase, Question};
use super::event::{Act, Command, Memory, Published, RuleId, Scan, VolumeId, Watch};
use super::fact::Fact;
use super::jitter::Replica;
use super::look::{Look, OnDisk};
use super::policy::Policy;
use super::reading::CLOCK_MARGIN;
use super::status::{Counters, Delivery};
use super::verdict::Verdict;
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Generation};

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Rule {
    pub(super) id: RuleId,
    pub(super) policy: Policy,
    pub(super) replica: Replica,
    pub(super) look: Look,
    pub(super) phase: Phase,
    pub(super) verdict: Verdict,
    /// The content whose certificates were asked about last, and when the first expires.
    expiry_of: Option<Digest>,
    pub(super) certificates_expire_at: Option<UnixTime>,
    /// What the application reads, where podnudge publishes.
    pub(super) published: Published,
    /// What is published, and still has to be published to the end.
    pub(super) half_published: Option<Digest>,
    /// Whether the application has had something to read, as far as podnudge publishes.
    pub(super) is_filled: bool,
    /// What the state directory held at start.
    pub(super) remembered: Option<Memory>,
    /// For programs that want to know which keys changed.
    pub(super) known: Known,
    /// What the application is known, or at the start assumed, to run. `None` while that is open:
    /// after anything was sent and before it was verified.
    pub(super) running: Option<Digest>,
    /// The digest that was verified last, and when.
    pub(super) applied: Option<(Digest, UnixTime)>,
    pub(super) delivery: Delivery,
    /// When content has its turn that waits for what is on trial.
    pub(super) turn: Option<(Digest, Moment)>,
    /// Where the trial was when newer content was to take its place.
    pub(super) replaced: Option<Phase>,
    pub(super) last_action: Option<Moment>,
    /// When the target was restarted, as far as the budget still counts it.
    pub(super) restarts: VecDeque<Moment>,
    /// Until when the application may have been reading after the last action.
    pub(super) read_until: Moment,
    /// The content that was acted on once more because it may have changed during an action. An
    /// application that touches its own volume as it reloads must not make that a circle.
    pub(super) repeated: Option<Digest>,
    /// A person asked for the action, and it has not begun.
    pub(super) forced: bool,
    /// What the first look found since: it is for nothing else.
    pub(super) forced_for: Option<Digest>,
    /// The first look is to be acted on, even if the target has read the content by itself.
    pub(super) insists: bool,
    pub(super) stopping: bool,
    /// How many waits were drawn.
    pub(super) draws: u64,
    pub(super) counters: Counters,
}

impl Rule {
    pub(super) fn new(
        id: RuleId,
        policy: Policy,
        (remembered, published): (Option<Memory>, Published),
        replica: Replica,
        now: Moment,
    ) -> Self {
        Self {
            id,
            look: Look::new(id, &policy, now),
            policy,
            replica,
            phase: Phase::Starting,
            verdict: Verdict::Open,
            expiry_of: None,
            certificates_expire_at: None,
            half_published: None,
            is_filled: published.current.is_some(),
            published,
            remembered,
            known: Known::default(),
            running: None,
            applied: None,
            delivery: Delivery::None,
            turn: None,
            replaced: None,
            last_action: None,
            restarts: VecDeque::new(),
            read_until: Moment::default(),
            repeated: None,
            forced: false,
            forced_for: None,
            insists: false,
            stopping: false,
            draws: 0,
            counters: Counters::default(),
        }
    }

    pub(super) fn touched(&mut self, now: Now, volume: VolumeId) {
        self.look.touched(now.mono, volume);
    }

    pub(super) fn touched_all(&mut self, now: Now) {
        self.look.touched_all(now.mono);
    }

    pub(super) fn untold(&mut self, now: Now, volume: VolumeId) {
        self.look.untold(now.mono, volume);
    }

    pub(super) fn audited(
        &mut self,
        now: Now,
        volume: VolumeId,
        begun: Moment,
        seen: Option<&Generation>,
    ) {
        self.look.audited(now.mono, volume, begun, seen);
    }

    pub(super) fn watched(&mut self, volume: VolumeId, watch: &Watch, out: &mut VecDeque<Command>) {
        self.look.watched(volume, watch, out);
    }

    pub(super) fn scanned(
        &mut self,
        now: Now,
        scans: Vec<(VolumeId, Scan)>,
        out: &mut VecDeque<Command>,
    ) {
        let seen = self.look.scanned(now, scans, &mut self.counters, out);
        self.bind_force();
        let Some(disk) = seen else { return };
        self.repeated = self.repeated.filter(|digest| *digest == disk.digest);
        self.note_keys(disk.digest);
        if self.policy.has_certificates && self.expiry_of != Some(disk.digest) {
            self.expiry_of = Some(disk.digest);
            out.push_back(Command::Expiry(self.id, disk.digest));
        }
        match self.phase {
            Phase::Starting => self.first_look(now, disk, out),
            Phase::Idle if self.running == Some(disk.digest) => {
                // Only where something was swapped there is anything to ask.
                if self.reads_volumes() && self.look.leaves_open(now.mono) {
                    self.ask(Question::Unchanged, out);
                } else {
                    self.unchanged(disk.digest, out);
                }
            }
            _ => self.reconcile(now, out),
        }
        self.fire_if_due(now, out);
    }

    /// Remembers what the application runs, or that this is open.
    pub(super) fn remember(
        &mut self,
        now: Now,
        running: Option<Digest>,
        out: &mut VecDeque<Command>,
    ) {
        // What is published is a better memory.
        if self.reads_volumes() {
            let memory = Memory { running, at: now.wall };
            out.push_back(Command::Persist(self.id, memory));
        }
    }

    /// Whether the application reads the volumes themselves.
    pub(super) fn reads_volumes(&self) -> bool {
        !self.policy.publishes
    }

    /// A person wants the action now: without settling, jitter or minimum interval, and even if
    /// the application runs the content, or it was given up.
    pub(super) fn force(&mut self, now: Now, out: &mut VecDeque<Command>) {
        self.say(Fact::Forced, out);
        self.forced = true;
        self.forced_for = None;
        let disk = self.look.on_disk().map(|disk| disk.digest);
        self.published.bad.retain(|(bad, _)| Some(*bad) != disk);
        self.check_again();
        self.look.look_now(now.mono);
    }

    /// A person's wish is for what the first look behind it finds, and for what the application runs,
    /// but for no content that comes later.
    fn bind_force(&mut self) {
        let Some(disk) = self.look.on_disk().filter(|_| self.forced) else { return };
        if self.forced_for.is_none() {
            self.forced_for = Some(disk.digest);
            self.published.bad.retain(|(bad, _)| *bad != disk.digest);
        }
        self.forced = [self.forced_for, self.running].contains(&Some(disk.digest));
    }

    pub(super) fn expires(&mut self, at: Option<UnixTime>) {
        self.certificates_expire_at = at;
    }

    /// No new action; one that runs may end.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Does what is due at `now`.
    pub(super) fn advance(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.stopping && !self.phase.is_busy() {
            self.phase = Phase::Stopped;
        }
        if self.is_stopped() {
            return;
        }
        if matches!(self.phase, Phase::Starting) {
            self.go_on(now, out);
        }
        self.look.advance(now.mono, out);
        self.check_if_due(now, out);
        if !self.look.is_busy() || self.goes_on() {
            self.fire_if_due(now, out);
        }
        if let Phase::Verifying(verification) = &mut self.phase
            && verification.next_look.is_some_and(|at| now.mono >= at)
        {
            verification.next_look = None;
            out.push_back(Command::Verify(self.id));
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        if self.is_stopped() {
            return None;
        }
        let delivery = match &self.phase {
            Phase::Verifying(verification) => verification.next_look,
            // An action that falls due during a look begins when the look ends, one that falls due
            // while a volume is missing when that is back, and so on.
            phase => phase.due().filter(|_| self.may_fire()),
        };
        delivery.into_iter().chain(self.look.next_wakeup()).chain(self.verdict.due()).min()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    /// Why the application has nothing to start with yet, if it has not.
    pub(super) fn not_ready(&self) -> Option<Reason> {
        let open = |what: &str, why: Option<&Reason>| match why {
            Some(Reason { message, hint }) => {
                Reason { message: format!("{what}: {message}"), hint: hint.clone() }
            }
            None => Reason::new(what),
        };
        match self.look.on_disk() {
            None => Some(open("its volumes were not read yet", self.look.unreadable())),
            Some(disk) if self.is_first_fill() => {
                let why = self.objection(disk.digest).or_else(|| self.phase.reason());
                Some(open("nothing was published yet", why))
            }
            Some(_) => None,
        }
    }

    /// Whether the application has nothing to read before podnudge publishes.
    pub(super) fn is_first_fill(&self) -> bool {
        self.policy.publishes && !self.is_filled
    }

    pub(super) fn look(&self) -> &Look {
        &self.look
    }

    /// Compares what is on disk with what the delivery is busy with: new content goes before
    /// whatever is planned for an older one, and content that the application runs needs nothing.
    pub(super) fn reconcile(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(disk) = self.look.on_disk() else { return };
        if self.forced {
            return;
        }
        if self.goes_on() {
            self.replace_if_due(now, disk, out);
            return;
        }
        let runs = self.running == Some(disk.digest);
        let open = match &self.phase {
            Phase::Idle => !runs,
            // A wait keeps its time, and takes what is on disk when it is due.
            Phase::Waiting { .. } => runs,
            phase => phase.stuck_on().is_some_and(|digest| digest != disk.digest),
        };
        if open && runs && self.reads_volumes() {
            self.ask(Question::GoneBack, out);
        } else if open && runs {
            self.phase = Phase::Idle;
            self.cancelled(disk.digest, out);
        } else if open {
            self.want(now.mono, disk, out);
        } else if !runs && self.phase.due().is_some() {
            self.check(disk, out);
        }
    }

    /// Whether the target was not there, or not well, for as long as is waited for it.
    fn has_waited_enough(&self, now: Moment, attempt: &Attempt) -> bool {
        attempt.absent.is_some_and(|(since, _)| now >= since.after(self.policy.target_wait))
    }

    /// Asks for the action.
    pub(super) fn act(&mut self, now: Now, mut attempt: Attempt, out: &mut VecDeque<Command>) {
        attempt.doubts = self.look.settle_doubts();
        let changed = self.changed_keys(&attempt);
        out.push_back(Command::Act(Act {
            rule: self.id,
            at: now.mono,
            digest: attempt.digest(),
            fresh_after: (!attempt.forced && !self.insists)
                .then(|| self.readable_since(attempt.disk).after(CLOCK_MARGIN)),
            lenient: attempt.back_to.is_some() || self.has_waited_enough(now.mono, &attempt),
            attempt: attempt.number,
            restart: attempt.restart,
            changed,
        }));
        // Whatever becomes of it, and if podnudge is killed now: what runs is open.
        self.remember(now, None, out);
        self.phase = Phase::Acting(attempt);
    }

    /// Since when the application reads what is to be delivered, when it starts.
    pub(super) fn readable_since(&self, disk: OnDisk) -> Moment {
        self.published.current.map_or(disk.committed_at, |current| current.at)
    }

    pub(super) fn say(&self, fact: Fact, out: &mut VecDeque<Command>) {
        out.push_back(Command::Report(self.id, fact));
    }
}
