//! Checks by a URL of the application.
