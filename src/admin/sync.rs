//! The pages of `podnudge sync`: `/metrics`, `/livez`, `/readyz` and `/status`. They are read-only, and have no names of
//! pods and no contents.

use hyper::{Request, StatusCode};
use tokio::sync::{mpsc, oneshot};

use super::ask::ask;
use super::respond::{Answer, metrics, stuck, text, with_type};
use super::{own_process, sync_metrics};
use podnudge_core::sync::SyncStatus;

/// Asks the loop for its status.
pub type AskStatus = oneshot::Sender<SyncStatus>;

pub(super) async fn answer<B>(request: &Request<B>, asks: &mpsc::Sender<AskStatus>) -> Answer {
    let path = request.uri().path();
    if !matches!(path, "/" | "/metrics" | "/healthz" | "/livez" | "/readyz" | "/status") {
        return text(StatusCode::NOT_FOUND, "not found; see /metrics /livez /readyz /status\n");
    }
    let Some(status) = ask(asks, |reply| reply).await else { return stuck() };
    match path {
        "/" => text(StatusCode::OK, "podnudge sync: /metrics /livez /readyz /status\n"),
        "/metrics" => {
            let rendered = sync_metrics::render(&status, &own_process::read());
            metrics(request, rendered)
        }
        "/readyz" if !status.ready => {
            let reason = status.reason.map(|reason| reason.message);
            let why = reason.unwrap_or_else(|| "the objects are not watched yet".to_owned());
            text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
        }
        "/status" => match serde_json::to_string(&status) {
            Ok(json) => with_type(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        _ => text(StatusCode::OK, "ok\n"),
    }
}
