//! The application's process: finding it and signalling it, and never another.
