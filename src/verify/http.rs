//! Proves by an HTTP request that the application runs the new content.
//!
//! Reads the files that the request names; changes nothing.

use reqwest::Method;

use super::body::{self, LONGEST, Page};
use crate::config::{Body, HttpProof};
use crate::exchange::ExchangeError;
use crate::exchange::http::{exchange, is_expected, name, unexpected};
use crate::reason::Reason;

/// Reads the values before the action for each proof. Sends a request only if a proof needs one.
///
/// # Errors
/// If it cannot be read.
pub async fn before(proof: &HttpProof) -> Result<Vec<body::Before>, Reason> {
    let mut before = Vec::new();
    if proof.bodies.iter().any(body::needs_before) {
        let page = page(proof).await?;
        for proof in &proof.bodies {
            before.push(body::before(proof, &page)?);
        }
    }
    Ok(before)
}

/// Sends the request once, and checks the response.
///
/// # Errors
/// If the response does not contain the proof, with the reason.
pub async fn look(proof: &HttpProof, before: &[body::Before]) -> Result<(), Reason> {
    let page = page(proof).await?;
    for (n, proof) in proof.bodies.iter().enumerate() {
        body::judge(proof, before.get(n).unwrap_or(&body::Before::Nothing), &page)?;
    }
    Ok(())
}

async fn page(proof: &HttpProof) -> Result<Page, Reason> {
    let what = name(&Method::GET, &proof.endpoint);
    let answer = exchange(&proof.endpoint, Method::GET, &Body::Empty, LONGEST).await;
    let answer = answer.map_err(ExchangeError::into_reason)?;
    if !is_expected(answer.status, &proof.expect) {
        return Err(unexpected(&what, &answer));
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    Ok(Page { what, text, end: answer.end })
}
