//! What podnudge shows of itself over HTTP.
