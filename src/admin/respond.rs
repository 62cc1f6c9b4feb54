//! The parts of an answer of the admin port. Pure.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};

use super::metrics;

pub(super) type Answer = Response<Full<Bytes>>;

/// Metrics, in the form that the client knows: OpenMetrics, as Prometheus, or else the older text format.
pub(super) fn metrics<B>(request: &Request<B>, openmetrics: String) -> Answer {
    let accepted = request.headers().get_all(ACCEPT).iter();
    let mut texts = accepted.filter_map(|value| value.to_str().ok());
    if texts.any(|text| text.contains("application/openmetrics-text")) {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return with_type(StatusCode::OK, kind, openmetrics);
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    with_type(StatusCode::OK, kind, metrics::to_text_format(&openmetrics))
}

pub(super) fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("only {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The loop does not answer.
pub(super) fn stuck() -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, "event loop not responding\n")
}

pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Answer {
    with_type(status, "text/plain; charset=utf-8", body.into())
}

pub(super) fn with_type(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
