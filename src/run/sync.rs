//! `podnudge sync`: sends the requests of the core's machine, and passes on what comes of them and what to report.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::connections::{Connections, Listeners};
use super::{RunError, clock};
use crate::admin::server::{self, AskStatus, Serves};
use crate::cluster::Api;
use crate::exchange::kept::Kept;
use crate::report;
use crate::system::os_signals::{OsSignal, OsSignals};
use crate::system::surroundings::Surroundings;
use podnudge_config::SyncOptions;
use podnudge_core::clock::Moment;
use podnudge_core::sync::{Answer, Request, Settings, Sync};

/// How many lines of watches may wait for the loop. A watch that has more is begun again.
const MOST_EVENTS: usize = 4096;
/// How often it tries to open a port that is in use.
const PORT_PACE: Duration = Duration::from_secs(30);
/// How many admin requests may be queued for the loop.
const MOST_ASKS: usize = 8;
/// How long giving the Lease back may take.
const LAST_REQUEST: Duration = Duration::from_secs(3);

/// The answers of requests, with their epoch.
type Answers = (u32, Answer);

/// Runs until podnudge is asked to stop.
///
/// # Errors
/// If the listener cannot be opened.
pub async fn sync(
    options: SyncOptions,
    surroundings: Surroundings,
    seed: u64,
) -> Result<(), RunError> {
    let mut signals = OsSignals::register().map_err(RunError::Signals)?;
    let mut listeners = Listeners::open(options.listen, PORT_PACE)?;
    let kept = Kept::default();
    let api = Api::new(options.cluster, surroundings.server).sharing(kept.clone());
    let pod = api.pod(surroundings.pod);
    let lease = options.lease;
    let settings = Settings {
        secrets: options.secrets,
        rate: options.rate,
        lease_duration: options.lease_duration,
        holder: pod.holder("sync", seed),
        lease: lease.clone(),
    };
    info!(
        event = "started",
        version = crate::system::version::VERSION,
        lease,
        holder = settings.holder,
        listen = listeners.address().map(|it| it.to_string()),
        "podnudge syncs the pods of the namespace when what they mount is edited"
    );
    let mut machine = Sync::new(settings, clock::now(), seed);
    let (events, mut told) = mpsc::channel::<Answers>(MOST_EVENTS);
    let (asks, mut asked) = mpsc::channel::<AskStatus>(MOST_ASKS);
    let mut sender = Sender { api: Arc::new(api), lease, events, tasks: JoinSet::new() };
    let mut connections = Connections::default();
    let mut end_at: Option<Moment> = None;
    loop {
        while let Some((epoch, request)) = machine.next_request(clock::now()) {
            sender.send(epoch, request);
        }
        while let Some(fact) = machine.next_fact() {
            report::sync(&fact);
        }
        if end_at.is_some_and(|end| machine.is_stopped() || end <= clock::now().mono) {
            break;
        }
        kept.close_idle(clock::now().mono);
        let wakeups = [machine.next_wakeup(), kept.next_wakeup(), end_at, listeners.retry()];
        let wakeup = wakeups.into_iter().flatten().min();
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                OsSignal::Stop if end_at.is_some() => break,
                OsSignal::Stop => {
                    info!(event = "ending", "stop signal received: giving the Lease back");
                    // What has come of the requests until now is not needed either.
                    sender.tasks = JoinSet::new();
                    machine.stop(clock::now().mono);
                    end_at = Some(clock::now().mono.after(LAST_REQUEST));
                }
                OsSignal::Trigger => {}
                OsSignal::DumpStatus => {
                    match serde_json::to_string(&machine.status(clock::now())) {
                        Ok(status) => info!(event = "status", status, "requested by USR1"),
                        Err(error) => warn!(event = "status", %error, "cannot serialize the status"),
                    }
                }
            },
            Some((epoch, answer)) = told.recv() => machine.handle(clock::now(), epoch, answer),
            Some(done) = sender.tasks.join_next() => match done {
                Ok((epoch, answer)) => machine.handle(clock::now(), epoch, answer),
                Err(error) if error.is_cancelled() => {}
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            // A client that has disconnected does not concern the loop.
            Some(reply) = asked.recv() => drop(reply.send(machine.status(clock::now()))),
            () = connections.ended() => {}
            accepted = listeners.accept(), if connections.has_room() => {
                connections.serve(server::connection(accepted, Serves::Sync(asks.clone())));
            }
            () = clock::sleep_until(wakeup) => {}
        }
    }
    info!(event = "stopped", "podnudge has stopped");
    Ok(())
}

/// What sends the requests.
struct Sender {
    api: Arc<Api>,
    lease: String,
    events: mpsc::Sender<Answers>,
    tasks: JoinSet<Answers>,
}

impl Sender {
    fn send(&mut self, epoch: u32, request: Request) {
        let (api, lease, events) = (Arc::clone(&self.api), self.lease.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let answer = match request {
                Request::Lease(ask) => Answer::Lease(api.sync_lease(&lease, ask).await),
                Request::List(followed, next) => {
                    let listed = api.list_objects(&followed, next).await;
                    Answer::Listed(followed.number, listed)
                }
                Request::Watch(followed, version, time) => {
                    let watch = api.watch_objects(&followed, (version, time), (epoch, events));
                    Answer::Ended(followed.number, watch.await)
                }
                Request::Pods(next, targets) => Answer::Pods(api.due_pods(next, &targets).await),
                Request::Annotate(pod) => {
                    let sent = clock::now().mono;
                    let answer = api.annotate(&pod.name, Some(pod.value.clone())).await;
                    Answer::Annotated(pod, sent, answer)
                }
            };
            (epoch, answer)
        });
    }
}
