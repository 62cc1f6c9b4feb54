//! What the application reads of a rule's content.

use std::path::PathBuf;

use super::action::Action;
use super::publish::Publish;
use super::request::Body;
use super::rule::Rule;

impl Rule {
    /// The directories that the application reads: the volumes, or the publish directory.
    #[must_use]
    pub fn read_by_application(&self) -> &[PathBuf] {
        match &self.settings.publish {
            Some(publish) => std::slice::from_ref(&publish.dir),
            None => &self.settings.watch,
        }
    }

    /// Whether the application itself reads what is in these directories, each time that it is acted on. Programs, socket
    /// commands, the body of a request and an expanded file may bring the content to it.
    #[must_use]
    pub fn is_read_by_application(&self) -> bool {
        let makes_it_read = |action: &Action| match action {
            Action::Signal(_) | Action::Restart => true,
            Action::Http(http) => !matches!(http.body, Body::Content(_)),
            _ => false,
        };
        self.settings.expand.is_none() && self.actions.iter().all(makes_it_read)
    }

    /// The directory of each volume that the application reads: of the current generation, if podnudge publishes.
    #[must_use]
    pub fn volumes_read(&self) -> Vec<PathBuf> {
        let publish = self.settings.publish.as_ref();
        publish.map_or_else(|| self.settings.watch.clone(), Publish::volumes)
    }
}
