//! What podnudge does to the application besides signalling it.
