//! When the certificates of the content on disk expire, if the answers come late or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::policies;
use crate::support::world::{Disk, EPOCH, UPTIME, moment};
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::command::Command;
use podnudge_core::event::{Event, Found, RuleId, VolumeId};
use podnudge_core::jitter::Replica;
use podnudge_core::snapshot::Digest;
use podnudge_core::{Core, Intervals};

const RULE: RuleId = RuleId(0);
const SECOND: Duration = Duration::from_secs(1);

/// A rule whose certificates the test reads.
struct Scene {
    core: Core,
    now: Now,
    disk: Disk,
    /// The digests that podnudge has asked about, until the test answers.
    asked: Vec<Digest>,
}

impl Scene {
    fn new() -> Self {
        let now = Now { mono: moment(Duration::ZERO), wall: UnixTime(EPOCH) };
        let policy = policies::changed(policies::policy(), |policy| {
            policy.intake.has_certificates = true;
        });
        let replica = Replica { identity: "web".to_owned(), ordinal: None, seed: 7 };
        let rounds = Intervals { resync: SECOND * 30, poll: SECOND * 5 };
        let core = Core::new(vec![(policy, Found::default())], &replica, rounds, now);
        let mut scene = Self { core, now, disk: Disk::default(), asked: Vec::new() };
        scene.write("one");
        scene.obey();
        scene
    }

    fn commit(&mut self, content: &str) {
        self.now.mono.0 += SECOND * 10;
        self.now.wall = UnixTime(EPOCH + (self.now.mono.0 - UPTIME));
        self.write(content);
        self.tell(Event::Hint(VolumeId(0), 1));
    }

    fn write(&mut self, content: &str) {
        self.disk.generation += 1;
        self.disk.committed = self.now.wall;
        self.disk.content = Some(BTreeMap::from([("tls.crt".to_owned(), content.to_owned())]));
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(self.now, event);
        self.obey();
    }

    fn obey(&mut self) {
        while let Some(command) = self.core.next_command() {
            match command {
                Command::Scan(rule, volumes) => {
                    let scans = volumes.into_iter().map(|volume| (volume, self.disk.scan()));
                    self.core.handle(self.now, Event::Scanned(rule, scans.collect()));
                }
                Command::Expiry(_, digest) => self.asked.push(digest),
                _ => {}
            }
        }
    }

    /// Answers what was asked about this digest.
    fn answer(&mut self, digest: Digest, seconds: u32) {
        let at = UnixTime(EPOCH + SECOND * seconds);
        self.tell(Event::Expires(RULE, digest, Some(at)));
    }

    /// When the certificates expire, in seconds.
    fn expire_at(&self) -> Option<u64> {
        let at = self.core.status(self.now).rules[0].certificates_expire_at?;
        Some((at.0 - EPOCH).as_secs())
    }
}

#[test]
fn a_late_answer_about_earlier_content_is_not_that_of_newer_content() {
    let mut scene = Scene::new();
    scene.commit("two");
    let [one, two] = scene.asked[..] else { panic!("{:?}", scene.asked) };
    scene.answer(one, 1000);
    assert_eq!(scene.expire_at(), None, "the answer about the earlier content");
    scene.answer(two, 2000);
    assert_eq!(scene.expire_at(), Some(2000));
    scene.commit("one");
    assert_eq!(scene.expire_at(), None, "the answer about the earlier content");
}

#[test]
fn content_that_moved_while_its_certificates_were_read_is_read_again() {
    let mut scene = Scene::new();
    // The kubelet swaps in the same content again, so there is no answer.
    scene.commit("one");
    let [first, again] = scene.asked[..] else { panic!("{:?}", scene.asked) };
    assert_eq!(first, again);
    scene.answer(again, 1000);
    assert_eq!(scene.expire_at(), Some(1000));
    scene.commit("one");
    assert_eq!(scene.asked.len(), 2, "it is known");
}
