//! What a cluster does between the clients and the replicas: the kubelet's readiness probes of the
//! application and of podnudge's `/serving`, the pod's condition in the API, and a Service that forwards
//! connections to the ready replicas.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::api_server::ApiServer;
use super::replica::{Replica, get};

const PROBE_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Balancer {
    address: String,
    /// The addresses of the replicas that get requests.
    endpoints: Arc<Mutex<Vec<SocketAddr>>>,
    replicas: usize,
    most_down: Arc<AtomicUsize>,
}

impl Balancer {
    pub(crate) fn start(replicas: &[Replica], api: &ApiServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let balancer = Self {
            address: listener.local_addr().unwrap().to_string(),
            endpoints: Arc::default(),
            replicas: replicas.len(),
            most_down: Arc::default(),
        };
        let probing = balancer.clone();
        let probed: Vec<_> = replicas
            .iter()
            .map(|one| (one.name.clone(), one.address, one.serving.clone()))
            .collect();
        let api = api.clone();
        thread::spawn(move || {
            loop {
                probing.probe(&probed, &api);
                thread::sleep(PROBE_EVERY);
            }
        });
        let serving = balancer.clone();
        thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                let serving = serving.clone();
                thread::spawn(move || serving.forward(client, number));
            }
        });
        balancer
    }

    /// One round of the kubelet's probes: the ready replicas are the endpoints, and the API knows.
    fn probe(&self, replicas: &[(String, SocketAddr, String)], api: &ApiServer) {
        let mut endpoints = Vec::new();
        for (name, address, serving) in replicas {
            let is_up = get(&address.to_string(), "/").is_some();
            let is_ready = is_up && get(serving, "/serving").is_some();
            endpoints.extend(is_ready.then_some(*address));
            let status = if is_ready { "True" } else { "False" };
            let pods = "/api/v1/namespaces/fleet/pods";
            let condition = json!([{"type": "Ready", "status": status}]);
            let pod = json!({"metadata": {"name": name}, "status": {"conditions": condition}});
            api.with_store(|store| {
                drop(
                    store
                        .patch(&format!("{pods}/{name}"), &pod)
                        .or_else(|_| store.create(pods, pod)),
                );
            });
        }
        self.most_down.fetch_max(self.replicas - endpoints.len(), Ordering::Relaxed);
        *self.endpoints.lock().unwrap() = endpoints;
    }

    fn forward(&self, mut client: TcpStream, number: usize) {
        let address = {
            let endpoints = self.endpoints.lock().unwrap();
            endpoints.get(number % endpoints.len().max(1)).copied()
        };
        let Some(mut replica) = address.and_then(|address| TcpStream::connect(address).ok()) else {
            return;
        };
        let mut request = [0; 4096];
        let length = client.read(&mut request).unwrap_or(0);
        drop(request.get(..length).map(|request| replica.write_all(request)));
        drop(std::io::copy(&mut replica, &mut client));
        drop(client.shutdown(Shutdown::Both));
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn ready(&self) -> usize {
        self.endpoints.lock().unwrap().len()
    }

    /// The largest number of replicas that were not ready at the same time, since [`Balancer::forget`].
    pub(crate) fn most_down(&self) -> usize {
        self.most_down.load(Ordering::Relaxed)
    }

    /// Forgets what was down while the replicas started.
    pub(crate) fn forget(&self) {
        self.most_down.store(0, Ordering::Relaxed);
    }
}
