//! The files of a rule's content that a request may send: `{dir}/NAME`, or a path in a volume. Pure.
//!
//! Any other file of podnudge's container would be sent whatever the content is, and the application's answer
//! would say nothing about the content.

use std::path::{Path, PathBuf};

use super::parsers::DIR;
use super::rule::RuleSettings;
use podnudge_core::reason::Reason;
use podnudge_core::shown::path_literal;

/// The link of the current content, which paths may name.
const CURRENT: &str = "..data";

/// A file of a rule's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFile {
    /// The number of its volume among those of the rule.
    pub volume: usize,
    /// The file's path below the directory of the volume.
    pub key: PathBuf,
}

impl RuleSettings {
    /// The file of the content that a path, such as that of `body-file`, names.
    ///
    /// # Errors
    /// If the path is not in the content, or not where the application reads the content.
    pub fn content_file(&self, path: &Path) -> Result<ContentFile, Reason> {
        if let Ok(key) = path.strip_prefix(DIR) {
            return Ok(ContentFile { volume: 0, key: key.to_owned() });
        }
        let in_volume = self.watch.iter().enumerate().find_map(|(volume, watched)| {
            let key = match path.strip_prefix(watched).ok()? {
                // The file itself is watched.
                key if key.as_os_str().is_empty() => Path::new(watched.file_name()?),
                key => key,
            };
            Some((volume, key))
        });
        let Some(publish) = &self.publish else {
            let (volume, key) = in_volume.ok_or_else(|| self.is_no_content(path))?;
            return Ok(ContentFile { volume, key: without_link(key) });
        };
        if let Some((volume, key)) = in_volume {
            return Err(publish.unpublished(path, volume, key));
        }
        let key = path.strip_prefix(&publish.dir).map(without_link);
        let volumes = publish.folders.iter().enumerate();
        let published = key.ok().and_then(|key| {
            let mut files = volumes.filter_map(|(volume, folder)| {
                let key = key.strip_prefix(folder).ok()?.to_owned();
                (!key.as_os_str().is_empty()).then_some(ContentFile { volume, key })
            });
            files.next()
        });
        published.ok_or_else(|| self.is_no_content(path))
    }

    /// The reason for a request without a body: the content of the volumes has no file that this `body-file`
    /// names.
    #[must_use]
    pub fn missing_content(&self, path: &Path) -> Reason {
        let name = Path::new(path.file_name().unwrap_or_default());
        let volumes: Vec<String> = self.watch.iter().map(|path| path_literal(path)).collect();
        let message = format!(
            "the content of {} has no key {} to send as the body of the request",
            volumes.join(" and "),
            path_literal(name)
        );
        let hint = "set `body-file` in `[rule.http]` to the file that the application loads, such as \
                    `{dir}/NAME`";
        Reason::new(message).hint(hint)
    }

    /// Why the request must not have the body that it has.
    pub(super) fn wrong_body(&self) -> Option<Reason> {
        self.content_file(self.http.as_ref()?.body_file.as_ref()?).err()
    }

    fn is_no_content(&self, path: &Path) -> Reason {
        let read = match &self.publish {
            Some(publish) => format!("the publish directory {}", path_literal(&publish.dir)),
            None => "the watched volumes".to_owned(),
        };
        let message = format!(
            "{} is not in {read}: it would be sent whatever the new content is",
            path_literal(path)
        );
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Reason::new(message).hint(format!(
            "name a file of the content, such as `body-file = \"{DIR}/{name}\"`; for a text that never changes, use `body`"
        ))
    }
}

/// The path below the directory of a volume, without the link to its current content.
fn without_link(path: &Path) -> PathBuf {
    path.strip_prefix(CURRENT).unwrap_or(path).to_owned()
}
