//! Code shared by the tests.

pub(crate) mod access;
pub(crate) mod agent;
pub(crate) mod api_server;
pub(crate) mod application;
pub(crate) mod cases;
pub(crate) mod certificate;
pub(crate) mod cgroups;
pub(crate) mod http;
pub(crate) mod kubelet;
pub(crate) mod managed_fields;
pub(crate) mod manifests;
pub(crate) mod memory;
pub(crate) mod pages;
pub(crate) mod pids;
pub(crate) mod pod;
/// The policies of the tests of the core.
#[path = "../../crates/core/tests/support/policies.rs"]
pub(crate) mod policies;
pub(crate) mod program;
pub(crate) mod publish;
#[path = "../../crates/core/tests/support/random.rs"]
pub(crate) mod random;
pub(crate) mod rights;
pub(crate) mod running;
pub(crate) mod scene;
pub(crate) mod shared;
#[path = "../../crates/core/tests/support/store.rs"]
pub(crate) mod store;
pub(crate) mod supervisor;
pub(crate) mod tls_server;
pub(crate) mod wait;
pub(crate) mod watches;
pub(crate) mod yaml;

pub(crate) use agent::{Agent, ROLLED_OUT};
pub(crate) use api_server::{ApiServer, Fault};
pub(crate) use application::Application;
pub(crate) use cases::cases;
pub(crate) use cgroups::{Cgroups, Driver};
pub(crate) use http::{answering, ask, request, requests, respond, server};
pub(crate) use kubelet::{Kubelet, Payload, payload};
pub(crate) use memory::MemoryLimit;
pub(crate) use pod::{Behaviour, Target, in_namespace, in_network};
pub(crate) use program::{command, podnudge, write_script};
pub(crate) use publish::recorded;
pub(crate) use random::Random;
pub(crate) use rights::rights_of;
pub(crate) use running::{Container, Running};
pub(crate) use scene::{OTHER_USER, Scene, mount, podnudge_by, tmpfs, unmount};
pub(crate) use shared::SharedPod;
pub(crate) use wait::{is_within, wait_until, wait_until_commit_is_past, wait_until_old};
