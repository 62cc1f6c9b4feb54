//! Asks a running podnudge for its status: `podnudge status`, because an image without a shell has
//! no curl either.

use std::time::Duration;

use reqwest::Url;

use super::table;
use crate::action::http::base_client;
use crate::cli;
use crate::core::event::Reason;
use crate::exit::Exit;

const LIMIT: Duration = Duration::from_secs(5);

/// What `podnudge status` prints, and how it ends.
///
/// # Errors
/// If nobody answers there, or something that is not podnudge.
pub async fn show(arguments: &cli::Status) -> Result<(String, Exit), Reason> {
    let json = status(&arguments.url).await?;
    let (table, in_sync) = table::render(&json)?;
    let exit = if in_sync { Exit::Ok } else { Exit::NotInSync };
    Ok((if arguments.json { json } else { table }, exit))
}

/// The status as JSON. `url` is the admin listener's, without a path.
///
/// # Errors
/// If nobody answers there, or something that is not podnudge.
async fn status(url: &Url) -> Result<String, Reason> {
    let shown = url.as_str().trim_end_matches('/');
    let ask = async {
        let client = base_client(LIMIT).build()?;
        let address = url.join("/status").unwrap_or_else(|_| url.clone());
        client.get(address).send().await?.error_for_status()?.text().await
    };
    ask.await.map_err(|error: reqwest::Error| {
        let what = if error.is_connect() {
            "nobody listens".to_owned()
        } else if error.is_timeout() {
            "no answer in 5 seconds".to_owned()
        } else {
            error.without_url().to_string()
        };
        Reason::new(format!("cannot ask podnudge at {shown}: {what}"))
            .hint("run it in podnudge's own container, and give its listen address by --url if that is not the default")
    })
}
