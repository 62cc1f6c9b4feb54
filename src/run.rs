//! The loop: the only `select!`, the only place that spawns, the only clock.
//!
//! It carries events to the core and does what the core asks for. What may block (files, `/proc`)
//! runs on one blocking thread, what waits (HTTP) as a task; each comes back as a [`Done`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use crate::admin::server::{self, Ask};
use crate::config::{Config, Listen, WatchMode};
use crate::core::event::{Command, Event, Moment, Now, Reason, RuleId, Scan, UnixTime, VolumeId, Watch};
use crate::core::jitter::Replica;
use crate::core::{Core, Policy, Rounds};
use crate::deliver::{self, InFlight};
use crate::os_signals::{OsSignal, OsSignals};
use crate::report;
use crate::state::{StateDir, StateDirError};
use crate::volume::read::{self, Directory};
use crate::volume::snapshot::Generation;
use crate::volume::watch::{Hints, Synced, Watcher};
use crate::volume::mount;
