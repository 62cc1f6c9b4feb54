//! What the supervisor does next. Pure.
//!
//! An end of the command that nobody asked for ends the supervisor, also just after a restart: the kubelet
//! then shows it and applies its back-off. Only a request for a restart starts the command anew.

use nix::libc::{SIGINT, SIGQUIT, SIGTERM};

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A request for a restart, at a time when the command had not ended.
    Request,
    /// A signal has arrived.
    Signal(i32),
    /// The command has had its time to end.
    GraceOver,
    /// The command has ended. The supervisor would end with this code.
    Ended(u8),
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is to be done.
    Wait,
    /// Send the command this signal.
    PassOn(i32),
    /// Send the command the stop signal, and give it its time to end.
    Stop,
    /// Kill the command.
    Kill,
    /// End what the command has left, which has ended with this code, and start it anew.
    StartAnew(u8),
    /// End with this code.
    Exit(u8),
}

/// Whether a restart is in progress, and whether the container is to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    stop: i32,
    is_restarting: bool,
    /// Somebody, usually the kubelet, has sent the signal that ends the container.
    is_ending: bool,
}

impl State {
    /// The command has just been started. `stop` is the signal that ends it.
    pub(super) fn new(stop: i32) -> Self {
        Self { stop, is_restarting: false, is_ending: false }
    }

    pub(super) fn handle(&mut self, event: Event) -> Next {
        match event {
            // A restart must not delay the end of the container. A second request is met by the restart
            // that is in progress: the command starts after the request.
            Event::Request if self.is_ending || self.is_restarting => Next::Wait,
            Event::Request => {
                self.is_restarting = true;
                Next::Stop
            }
            Event::Signal(signal) => self.signal(signal),
            Event::GraceOver if self.is_restarting => Next::Kill,
            Event::GraceOver => Next::Wait,
            Event::Ended(code) if self.is_restarting && !self.is_ending => {
                self.is_restarting = false;
                Next::StartAnew(code)
            }
            Event::Ended(code) => Next::Exit(code),
        }
    }

    fn signal(&mut self, signal: i32) -> Next {
        // While the command runs, INT and QUIT may mean anything to it; a command that is being stopped
        // can only end.
        let ends = signal == SIGTERM || signal == self.stop;
        let ends_now = self.is_restarting && (signal == SIGINT || signal == SIGQUIT);
        // Many programs end at once when they get the signal a second time.
        let was_sent = self.is_restarting && signal == self.stop && !self.is_ending;
        self.is_ending |= ends || ends_now;
        if was_sent { Next::Wait } else { Next::PassOn(signal) }
    }
}

#[cfg(test)]
mod tests {
    use nix::libc::{SIGHUP, SIGWINCH};

    use super::Event::{Ended, GraceOver, Request, Signal};
    use super::Next::{Exit, Kill, PassOn, StartAnew, Stop, Wait};
    use super::*;

    /// What is done after each event, with this stop signal.
    fn steps(stop: i32, events: &[Event]) -> Vec<Next> {
        let mut state = State::new(stop);
        events.iter().map(|event| state.handle(*event)).collect()
    }

    #[test]
    fn only_a_request_starts_the_command_anew() {
        let events =
            [Signal(SIGHUP), Request, Signal(SIGHUP), Ended(0), Request, Ended(143), Ended(139)];
        let wanted =
            [PassOn(SIGHUP), Stop, PassOn(SIGHUP), StartAnew(0), Stop, StartAnew(143), Exit(139)];
        assert_eq!(steps(SIGTERM, &events), wanted);
        assert_eq!(steps(SIGTERM, &[Ended(0)]), [Exit(0)]);
    }

    #[test]
    fn a_second_request_is_met_by_the_same_restart() {
        let events = [Request, Request, Ended(0), Ended(1)];
        assert_eq!(steps(SIGTERM, &events), [Stop, Wait, StartAnew(0), Exit(1)]);
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_and_started_anew() {
        let events = [GraceOver, Request, GraceOver, Ended(137)];
        assert_eq!(steps(SIGTERM, &events), [Wait, Stop, Kill, StartAnew(137)]);
    }

    #[test]
    fn a_restart_does_not_outlast_the_end_of_the_container() {
        for (stop, signal, then) in [
            (SIGTERM, SIGTERM, Wait),
            (SIGQUIT, SIGTERM, PassOn(SIGTERM)),
            (SIGWINCH, SIGWINCH, Wait),
            (SIGTERM, SIGQUIT, PassOn(SIGQUIT)),
            (SIGTERM, SIGINT, PassOn(SIGINT)),
        ] {
            let events = [Request, Signal(signal), Request, GraceOver, Ended(137)];
            assert_eq!(steps(stop, &events), [Stop, then, Wait, Kill, Exit(137)], "{signal}");
        }
        let events = [Request, Signal(SIGTERM), Signal(SIGTERM)];
        assert_eq!(
            steps(SIGTERM, &events),
            [Stop, Wait, PassOn(SIGTERM)],
            "a second one is passed on"
        );
    }

    #[test]
    fn a_request_is_ignored_while_the_container_ends() {
        for signal in [SIGTERM, SIGQUIT] {
            let events = [Signal(signal), Request, Ended(0)];
            assert_eq!(steps(SIGQUIT, &events), [PassOn(signal), Wait, Exit(0)]);
        }
        let events = [Signal(SIGINT), Request, Ended(0)];
        assert_eq!(
            steps(SIGTERM, &events),
            [PassOn(SIGINT), Stop, StartAnew(0)],
            "a key of the terminal"
        );
    }
}
