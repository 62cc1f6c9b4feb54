//! Proves by an HTTP request that the application runs the new content.
//!
//! Reads the files that the request names; changes nothing.

use reqwest::Method;

use super::body::{self, MAX_BODY, Page};
use crate::exchange::ExchangeError;
use crate::exchange::http::{describe, exchange, is_expected, unexpected_response};
use podnudge_config::HttpProof;
use podnudge_core::reason::Reason;

/// Reads the values before the action for each proof. Sends a request only if a proof needs one.
///
/// # Errors
/// If it cannot be read.
pub async fn values_before(proof: &HttpProof) -> Result<Vec<body::ValueBefore>, Reason> {
    let mut before = Vec::new();
    if proof.bodies.iter().any(body::needs_value_before) {
        let page = page(proof).await?;
        for proof in &proof.bodies {
            before.push(body::value_before(proof, &page)?);
        }
    }
    Ok(before)
}

/// For a process that read the content when it started: every value counts as new.
pub(crate) fn all_new(proof: &HttpProof) -> Vec<body::ValueBefore> {
    proof.bodies.iter().map(|_| body::ValueBefore::NewProcess).collect()
}

/// Sends the request once, and checks the response.
///
/// # Errors
/// If the response does not contain the proof, with the reason.
pub async fn check(proof: &HttpProof, before: &[body::ValueBefore]) -> Result<(), Reason> {
    let page = page(proof).await?;
    for (n, proof) in proof.bodies.iter().enumerate() {
        body::check(proof, before.get(n).unwrap_or(&body::ValueBefore::Unknown), &page)?;
    }
    Ok(())
}

async fn page(proof: &HttpProof) -> Result<Page, Reason> {
    let what = describe(&Method::GET, &proof.endpoint);
    let answer = exchange(&proof.endpoint, Method::GET, None, MAX_BODY).await;
    let answer = answer.map_err(ExchangeError::into_reason)?;
    if !is_expected(answer.status, &proof.expect) {
        return Err(unexpected_response(&what, &answer));
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    Ok(Page { what, text, end: answer.end })
}
