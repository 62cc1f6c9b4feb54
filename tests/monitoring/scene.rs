//! Three replicas with real podnudges, and a real Prometheus that scrapes them as the operator would have it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use podnudge::cluster::object_rights;
use podnudge_core::objects::{ObjectKind, ObjectName};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::{manifest, rules};
use crate::support::rights::access;
use crate::support::{
    Agent, ApiServer, Kubelet, Payload, Running, payload, podnudge, request, respond, rights_of,
    server, wait_until,
};

pub(super) const MAPS: &str = "/api/v1/namespaces/test/configmaps";

/// A replica: an application that reads what podnudge publishes, beside a rule for certificates.
pub(super) struct Replica {
    name: String,
    address: String,
    pub(super) volume: Kubelet,
    pub(super) certificates: Kubelet,
    pub(super) agent: Agent,
}

/// Answers by what it reads: 400 to content that it does not accept, and 503 if it cannot reload now.
fn application(published: PathBuf) -> String {
    server(move |stream| {
        drop(request(&stream));
        let content = fs::read_to_string(&published).unwrap_or_default();
        let status = match content.as_str() {
            "\"not accepted\"" => "400 Bad Request",
            "\"busy\"" => "503 Service Unavailable",
            _ => "200 OK",
        };
        respond(stream, status, "", "");
    })
}

pub(super) fn content(json: &str) -> Payload {
    payload(&[("app.json", json)])
}

impl Replica {
    /// The first one polls its volumes and has eager sync, and the last one has a rule whose action would fail.
    pub(super) fn start(
        folder: &Path,
        number: usize,
        certificate: &Payload,
        api: &ApiServer,
    ) -> Self {
        let name = format!("web-{number}");
        let address = format!("127.0.0.{}:9533", number + 1);
        let folder = folder.join(&name);
        let mut volume = Kubelet::new(folder.join("volume"));
        volume.write(&content("\"first\""));
        let mut certificates = Kubelet::new(folder.join("certificates"));
        certificates.write(certificate);
        let published = folder.join("config");
        fs::create_dir(&published).unwrap();
        let url = application(published.join("app.json"));
        let accept = application(folder.join("nothing"));
        let mut text = format!(
            "[agent]\nlog = \"json\"\nlisten = \"{address}\"\ndigests-in-metrics = \"all\"\nwork-dir = \"{}\"\n{}\n\
             [[rule]]\nname = \"web\"\nwatch = \"{}\"\nsettle = \"0s\"\ncheck = [{{ syntax = \"json\" }}]\n\
             publish.dir = \"{}\"\nhttp.url = \"{url}\"\nretry = {{ first = \"1m\", max = \"1m\" }}\n\
             verify.timeout = \"1s\"\n\
             [[rule]]\nname = \"tls\"\nwatch = \"{}\"\nsettle = \"0s\"\non-start = \"never\"\n\
             check = [{{ syntax = \"pem\" }}]\nhttp.url = \"{accept}\"\n",
            folder.display(),
            if number == 0 { "watch = \"poll\"\npoll = \"1s\"" } else { "" },
            volume.volume.display(),
            published.display(),
            certificates.volume.display(),
        );
        if number == 0 {
            let token = folder.join("token");
            fs::write(&token, "token").unwrap();
            let cluster = format!(
                "[cluster]\nurl = \"{}\"\nnamespace = \"test\"\ntoken-file = \"{}\"\neager-sync = true\n",
                api.url(),
                token.display()
            );
            text.insert_str(text.find("[[rule]]").unwrap(), &cluster);
            api.with_store(|store| {
                let mounts = json!([{"name": "config", "mountPath": volume.volume}]);
                let pod = json!({
                    "metadata": {"name": name},
                    "spec": {
                        "volumes": [{"name": "config", "configMap": {"name": "app"}}],
                        "containers": [{"name": "podnudge", "volumeMounts": mounts}]
                    }
                });
                store.create(MAPS, object("\"first\"")).unwrap();
                store.create("/api/v1/namespaces/test/pods", pod).unwrap();
            });
            let app = ObjectName { kind: ObjectKind::ConfigMap, name: "app".to_owned() };
            api.grant(rights_of(&text).into_iter().chain(object_rights(&app).map(access)));
        }
        if number == 2 {
            let watch = folder.join("other");
            fs::create_dir(&watch).unwrap();
            fs::write(watch.join("key"), "value").unwrap();
            let rule = format!(
                "[[rule]]\nname = \"orphan\"\nwatch = \"{}\"\non-start = \"never\"\n\
                 http.url = \"http://127.0.0.1:9/\"\n",
                watch.display()
            );
            text.push_str(&rule);
        }
        let file = folder.join("podnudge.toml");
        fs::write(&file, text).unwrap();
        let mut command = podnudge();
        command.arg("--config").arg(&file).env("PODNUDGE_POD_NAME", &name);
        let agent = Agent::spawn(&folder, command);
        Self { name, address, volume, certificates, agent }
    }
}

fn object(content: &str) -> Value {
    json!({"metadata": {"name": "app"}, "data": {"app.json": content}})
}

/// A key pair that expires in three days.
pub(super) fn certificate() -> Payload {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(["web.example".to_owned()]).unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let end = SystemTime::UNIX_EPOCH + now + Duration::from_hours(72);
    parameters.not_after = end.into();
    let certificate = parameters.self_signed(&key).unwrap();
    payload(&[("tls.crt", &certificate.pem()), ("tls.key", &key.serialize_pem())])
}

/// A real Prometheus.
pub(super) struct Prometheus {
    #[expect(dead_code, reason = "it runs until it is dropped")]
    process: Running,
}

/// What a query returned: the labels that tell the series apart, and the value.
pub(super) type Answer = BTreeMap<String, f64>;

impl Prometheus {
    pub(super) fn start(folder: &Path, replicas: &[Replica]) -> Self {
        fs::write(folder.join("rules.yaml"), rules().0.to_string()).unwrap();
        fs::write(folder.join("prometheus.yaml"), configuration(replicas).to_string()).unwrap();
        let [config, data] = [("config.file", "prometheus.yaml"), ("storage.tsdb.path", "data")]
            .map(|(option, name)| format!("--{option}={}", folder.join(name).display()));
        let program = ["prometheus", &config, &data, "--web.listen-address=127.0.0.1:9090"];
        let process = Running::logged(&program, &folder.join("prometheus.log"));
        wait_until("Prometheus is ready", || {
            TcpStream::connect("127.0.0.1:9090").is_ok()
                && get("/-/ready").starts_with("HTTP/1.0 200")
        });
        Self { process }
    }

    pub(super) fn data(path: &str) -> Value {
        let answer = get(path);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        assert_eq!(body["status"], "success", "{path}: {body}");
        body["data"].clone()
    }

    pub(super) fn query(expression: &str) -> Answer {
        let encode = |byte: u8| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        };
        let encoded: String = expression.bytes().map(encode).collect();
        let data = Self::data(&format!("/api/v1/query?query={encoded}"));
        let series = data["result"].as_array().unwrap().iter().map(|series| {
            let same = ["__name__", "job", "instance", "namespace", "container", "workload"];
            let labels = series["metric"].as_object().unwrap().iter();
            let labels = labels.filter(|(name, _)| !same.contains(&name.as_str()));
            let labels: Vec<&str> = labels.map(|(_, value)| value.as_str().unwrap()).collect();
            (labels.join(" "), series["value"][1].as_str().unwrap().parse().unwrap())
        });
        let answer: Answer = series.collect();
        assert_eq!(answer.len(), data["result"].as_array().unwrap().len(), "{data}");
        answer
    }
}

/// HTTP/1.0, as the answer then comes in one piece.
fn get(path: &str) -> String {
    let mut stream = TcpStream::connect("127.0.0.1:9090").unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What the operator makes of the `PodMonitor`, with the labels that Prometheus gets from the API server: so the
/// relabelling is that of the manifest.
fn configuration(replicas: &[Replica]) -> Value {
    let monitor = manifest("podmonitor.yaml");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let target = |address: &str, pod: &str, kind: &str, controller: &str, hash: &str| {
        json!({"targets": [address], "labels": {
            "__meta_kubernetes_namespace": "test",
            "__meta_kubernetes_pod_name": pod,
            "__meta_kubernetes_pod_container_name": "podnudge",
            "__meta_kubernetes_pod_container_port_name": "podnudge",
            "__meta_kubernetes_pod_controller_kind": kind,
            "__meta_kubernetes_pod_controller_name": controller,
            "__meta_kubernetes_pod_labelpresent_pod_template_hash": hash,
        }})
    };
    let web = replicas.iter().enumerate().map(|(number, replica)| {
        // Two ReplicaSets: a Deployment is being rolled out.
        let of = ["web-front-7d4b9c6f5d", "web-front-5c8f7b9d66"][number % 2];
        target(&replica.address, &replica.name, "ReplicaSet", of, "true")
    });
    let absent = [
        ("db-0", "StatefulSet", "db", ""),
        ("node-x7k2p", "DaemonSet", "node", ""),
        ("bare-1", "ReplicaSet", "bare-set", ""),
        ("alone", "", "", ""),
    ];
    let absent = absent.iter().enumerate().map(|(number, (pod, kind, controller, hash))| {
        target(&format!("127.0.1.{number}:9533"), pod, kind, controller, hash)
    });
    let mut steps = vec![
        json!({"action": "keep", "regex": endpoint["port"], "source_labels": ["__meta_kubernetes_pod_container_port_name"]}),
        json!({"target_label": "namespace", "source_labels": ["__meta_kubernetes_namespace"]}),
        json!({"target_label": "container", "source_labels": ["__meta_kubernetes_pod_container_name"]}),
        json!({"target_label": "pod", "source_labels": ["__meta_kubernetes_pod_name"]}),
    ];
    for step in endpoint["relabelings"].as_array().unwrap() {
        let names = [
            ("sourceLabels", "source_labels"),
            ("targetLabel", "target_label"),
            ("regex", "regex"),
        ];
        let settings = names
            .iter()
            .filter_map(|(ours, theirs)| Some(((*theirs).to_owned(), step.get(ours)?.clone())));
        steps.push(Value::Object(settings.collect()));
    }
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{
            "job_name": "monitoring/podnudge",
            "metrics_path": endpoint["path"],
            "static_configs": web.chain(absent).collect::<Vec<_>>(),
            "relabel_configs": steps,
        }],
    })
}
