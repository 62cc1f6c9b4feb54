//! The rights of podnudge's service account: the Roles in the manifests and the documentation grant what the table in
//! `src/cluster/rights.rs` says, and the preflight finds what is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::manifests::templated;
use crate::support::{Agent, ApiServer, Fault, rights_of, wait_until};
use crate::support::{Scene, yaml};

const RULE: &str = "[[rule]]\nwatch = \"/etc/app\"\n";

/// The Roles, and the rules for them, that the documentation shows: the file, and the configuration that needs them.
const SHOWN: [(&str, &str); 3] = [
    ("docs/actions.md", "restart = \"evict\"\n"),
    ("docs/eager-sync.md", EAGER_SYNC),
    ("docs/fleet.md", "restart = \"evict\"\nlimit = { lease = \"web\" }\n"),
];

const EAGER_SYNC: &str = "http.url = \"http://127.0.0.1/\"\n[cluster]\neager-sync = true\n\
                          objects = [\"configmap/app\", \"secret/tls\"]\n";

/// What the rules of a Role grant.
pub(crate) fn granted(rules: &Value) -> BTreeSet<Access> {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        let names = texts(&rule["resourceNames"]);
        let names: Vec<Option<String>> =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in &names {
                    for verb in texts(&rule["verbs"]) {
                        let (group, resource, name) =
                            (group.clone(), resource.clone(), name.clone());
                        let one = Access { group, resource, verb, name };
                        assert!(all.insert(one.clone()), "{one:?} is granted twice");
                    }
                }
            }
        }
    }
    all
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}

fn roles(documents: &[Value]) -> Vec<&Value> {
    documents.iter().filter(|object| object["kind"] == "Role").collect()
}

#[test]
fn the_roles_of_the_manifests_grant_exactly_what_their_configuration_needs() {
    let mut found = 0;
    for path in files("k8s", "yaml") {
        let documents = yaml::documents(&fs::read_to_string(&path).unwrap());
        let roles = roles(&documents);
        let config = documents.iter().find_map(|object| object["data"]["podnudge.toml"].as_str());
        let needed = config.map(rights_of).unwrap_or_default();
        let granted: BTreeSet<Access> =
            roles.iter().flat_map(|role| granted(&role["rules"])).collect();
        assert_eq!(granted, needed, "{}", path.display());
        found += roles.len();
    }
    assert!(found >= 3, "{found} Roles");
}

/// Each Role of `k8s/access/`, and the settings that need it.
const FEATURES: [(&str, &str, &str); 5] = [
    (
        "eager-sync",
        "http.url = \"http://127.0.0.1/\"\n",
        "eager-sync = true\nobjects = [\"configmap/app\", \"secret/app\"]\n",
    ),
    ("events", "http.url = \"http://127.0.0.1/\"\n", "events = true\n"),
    ("evict", "restart = \"evict\"\n", ""),
    ("lease", "restart = {}\nlimit = { lease = \"podnudge\" }\n", ""),
    ("services", "restart = {}\ndrain = { services = [\"web\"] }\n", ""),
];

#[test]
fn each_role_of_one_feature_grants_exactly_what_it_needs() {
    let mut folders: Vec<String> = fs::read_dir("k8s/access")
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, FEATURES.map(|(folder, ..)| folder));
    for (folder, rule, cluster) in FEATURES {
        let text = fs::read_to_string(format!("k8s/access/{folder}/role.yaml")).unwrap();
        let documents = yaml::documents(&text);
        let [role] = &roles(&documents)[..] else { panic!("{folder}: not one Role") };
        let needed = rights_of(&format!("{RULE}{rule}[cluster]\n{cluster}"));
        assert_eq!(granted(&role["rules"]), needed, "{folder}");
    }
}

#[test]
fn the_role_of_the_chart_grants_exactly_what_its_values_say() {
    let url = "http.url = \"http://127.0.0.1/\"\n";
    let eager = "[cluster]\neager-sync = true\nobjects = [\"configmap/a\", \"configmap/b\", \"secret/c\"]\n";
    for (values, config) in [
        (
            "{\"lease\": {\"name\": \"web\", \"slots\": 2}}",
            "restart = {}\nlimit = { lease = \"web\", max-concurrent = 2 }\n".to_owned(),
        ),
        ("{\"services\": true}", "restart = {}\ndrain = { services = [\"web\"] }\n".to_owned()),
        (
            "{\"eagerSync\": {\"configMaps\": [\"a\", \"b\"], \"secrets\": [\"c\"]}}",
            format!("{url}{eager}"),
        ),
        ("{\"evict\": true}", "restart = \"evict\"\n".to_owned()),
        ("{\"events\": true}", format!("{url}[cluster]\nevents = true\n")),
        (
            "{\"lease\": {\"name\": \"web\"}, \"services\": true, \"evict\": true, \"events\": true, \
             \"eagerSync\": {\"configMaps\": [\"a\", \"b\"], \"secrets\": [\"c\"]}}",
            format!(
                "restart = \"evict\"\nlimit = {{ lease = \"web\" }}\ndrain = {{ services = [\"web\"] }}\n{eager}events = true\n"
            ),
        ),
    ] {
        let text = templated(Path::new("k8s/chart"), &[&format!("access={values}")]).unwrap();
        let documents = yaml::documents(&text);
        let [role] = &roles(&documents)[..] else { panic!("{values}: not one Role") };
        assert_eq!(granted(&role["rules"]), rights_of(&format!("{RULE}{config}")), "{values}");
    }
}

#[test]
fn the_roles_of_the_documentation_grant_exactly_what_their_features_need() {
    let mut files = files("docs", "md");
    files.sort();
    let mut shown = SHOWN.into_iter();
    for path in files {
        let name = format!("docs/{}", path.file_name().unwrap().display());
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("```yaml\n").skip(1) {
            for object in yaml::documents(block.split("```").next().unwrap()) {
                // A Role, or rules to add to one.
                let rules = match &object {
                    Value::Array(rules) if rules[0]["apiGroups"].is_array() => &object,
                    object if object["kind"] == "Role" => &object["rules"],
                    _ => continue,
                };
                let (file, config) = shown.next().unwrap_or_else(|| panic!("{name}: {rules}"));
                assert_eq!(name, file, "{rules}");
                assert_eq!(granted(rules), rights_of(&format!("{RULE}{config}")), "{name}");
            }
        }
    }
    assert_eq!(shown.next(), None);
}

/// A podnudge with slots, eager sync and Events.
struct Pod {
    agent: Agent,
    server: ApiServer,
    scene: Scene,
}

impl Pod {
    fn start(before: impl FnOnce(&ApiServer)) -> Self {
        Self::accepting("", before)
    }

    /// The same with more settings of the rule.
    fn accepting(settings: &str, before: impl FnOnce(&ApiServer)) -> Self {
        Self::with(|_| "http://127.0.0.1:1/".to_owned(), settings, before)
    }

    /// `url` is what the application of the scene answers at.
    fn with(
        url: impl FnOnce(&Scene) -> String,
        settings: &str,
        before: impl FnOnce(&ApiServer),
    ) -> Self {
        let scene = Scene::with(&[("a.conf", "0")]);
        let server = ApiServer::start();
        let text = format!(
            "[agent]\nresync = \"1s\"\ngrace = \"2s\"\nCLUSTER\n\
             eager-sync = true\nobjects = [\"configmap/app\"]\nevents = true\n\
             [[rule]]\nwatch = \"FOLDER/volume\"\non-start = \"never\"\nhttp.url = \"{}\"\nlimit.lease = \"web\"\n{settings}\n",
            url(&scene),
        );
        let mut podnudge = scene.in_cluster(&server, "web-1", &text);
        podnudge.env("PODNUDGE_POD_UID", "u-1");
        before(&server);
        let agent = scene.start(podnudge, "baseline");
        Self { agent, server, scene }
    }

    /// The problems with rights in the status, each with its hint.
    fn problems(&self) -> Vec<(String, String)> {
        let status = self.agent.status();
        let problems = status["rules"][0]["preflight"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let all = problems.iter().map(|it| (text(&it["problem"]), text(&it["reason"]["hint"])));
        all.filter(|(name, _)| name.ends_with("-forbidden") || name.starts_with("rights-"))
            .collect()
    }
}

#[test]
fn each_right_that_is_missing_is_said_once_with_the_rule_that_the_role_lacks() {
    let pod = Pod::start(|server| {
        server.revoke("update", "leases");
        server.revoke("get", "pods");
        server.revoke("patch", "pods");
        server.revoke("create", "events");
    });
    wait_until("the problems are in the status", || pod.problems().len() == 4);
    let add = "add to the Role of podnudge's service account: apiGroups: [";
    let wanted = [
        (
            "slots-forbidden",
            "coordination.k8s.io], resources: [leases], resourceNames: [web-0], verbs: [update]",
        ),
        ("readiness-forbidden", "\"\"], resources: [pods], verbs: [get]"),
        ("eager-sync-forbidden", "\"\"], resources: [pods], verbs: [patch]"),
        ("events-forbidden", "\"\"], resources: [events], verbs: [create]"),
    ];
    let wanted = wanted.map(|(name, rule)| (name.to_owned(), format!("{add}{rule}")));
    assert_eq!(pod.problems(), wanted);
    // A later preflight finds that nothing listens at the URL, and neither repeats nor removes them.
    pod.agent.wait_for("preflight", 5);
    assert_eq!(pod.agent.last("preflight", "problem"), "unreachable");
    assert_eq!(pod.problems(), wanted);
    let asked = pod.server.reviews().len();
    let said = pod.agent.events("preflight");
    let said: Vec<&Value> = said
        .iter()
        .filter(|line| line["problem"].as_str().unwrap().ends_with("-forbidden"))
        .collect();
    assert_eq!((said.len(), asked), (4, 10), "{}", pod.agent.log());
    let review = &pod.server.reviews()[0];
    assert_eq!(review["apiVersion"], "authorization.k8s.io/v1", "{review}");
}

/// The refused request says nothing more than the preflight, which may be answered before it or after it.
#[test]
fn a_right_that_is_missing_is_not_said_again_when_its_request_is_refused() {
    for (verb, resource, feature) in
        [("list", "configmaps", "eager-sync"), ("create", "events", "events")]
    {
        let application = |scene: &Scene| scene.application().url();
        let check = "check = [{ syntax = \"json\" }]";
        let mut pod = Pod::with(application, check, |server| {
            let pod = json!({"metadata": {"name": "web-1", "uid": "u-1"}});
            server.with_store(|store| store.create("/api/v1/namespaces/test/pods", pod)).unwrap();
            server.revoke(verb, resource);
        });
        wait_until("the right is missing", || pod.problems().len() == 1);
        // Content that is rejected, and content that is applied: the second Event is sent after the answer to the first.
        pod.scene.change("{");
        pod.agent.wait_for("rejected", 1);
        pod.scene.change("1");
        let is_refused = |request: &&String| request.contains(&format!("/{resource}"));
        wait_until("it is refused, and that is known", || {
            let requests = pod.server.seen().iter().filter(is_refused).count();
            let status = pod.agent.status();
            let is_eager = feature == "eager-sync";
            if is_eager {
                !status["eager_sync"]["objects"][0]["reason"].is_null()
            } else {
                requests == 2
            }
        });
        assert_eq!(pod.agent.count(&format!("{feature}-unavailable")), 0);
        let said = pod.agent.events("preflight");
        let said = said.iter().filter(|line| line["problem"] == format!("{feature}-forbidden"));
        assert_eq!(said.count(), 1, "{}", pod.agent.log());
    }
}

#[test]
fn with_all_rights_and_without_an_answer_there_is_no_problem() {
    let pod = Pod::start(|_| {});
    wait_until("the rights are asked for", || pod.server.reviews().len() == 10);
    let pods: Vec<Value> = pod
        .server
        .reviews()
        .into_iter()
        .filter(|it| it["spec"]["resourceAttributes"]["resource"] == "pods")
        .collect();
    assert!(pods.iter().all(|it| it["spec"]["resourceAttributes"]["name"] == "web-1"), "{pods:?}");
    assert_eq!(pod.problems(), []);
    for fault in [Fault::Status(403, ""), Fault::Status(500, ""), Fault::Closed, Fault::Body("{}")]
    {
        let pod = Pod::start(|server| {
            server.revoke("get", "pods");
            server.partition("selfsubjectaccessreviews", fault);
        });
        wait_until("the rights are asked for", || !pod.server.reviews().is_empty());
        assert_eq!(pod.problems(), []);
    }
}

/// podnudge tries to change a label of its pod, without an effect, which the policy must refuse.
#[test]
fn a_policy_that_does_not_hold_is_said() {
    let unlimited = |server: &ApiServer| {
        let pod = json!({"metadata": {"name": "web-1", "uid": "u-1"}});
        server.with_store(|store| store.create("/api/v1/namespaces/test/pods", pod)).unwrap();
        server.without_policy(true);
    };
    let pod = Pod::start(unlimited);
    wait_until("the problem is in the status", || pod.problems().len() == 1);
    let (problem, hint) = &pod.problems()[0];
    assert_eq!(problem, "rights-unlimited");
    assert!(hint.starts_with("apply k8s/access/policy.yaml"), "{hint}");
    let trials = |pod: &Pod| {
        let seen = pod.server.seen();
        seen.into_iter().filter(|it| it.contains("podnudge.io/trial")).collect::<Vec<_>>()
    };
    let [trial] = &trials(&pod)[..] else { unreachable!("it is tried once") };
    assert!(trial.starts_with("PATCH /api/v1/namespaces/test/pods/web-1?dryRun=All"), "{trial}");
    let accepted = "accept = \"rights-unlimited\"";
    for pod in [Pod::start(|_| {}), Pod::accepting(accepted, unlimited)] {
        wait_until("it is tried", || trials(&pod).len() == 1);
        pod.agent.wait_for("preflight", 1);
        assert_eq!(pod.problems(), []);
    }
    // Without the right, there is nothing to limit.
    let pod = Pod::start(|server| {
        unlimited(server);
        server.revoke("patch", "pods");
    });
    wait_until("the rights are asked for", || pod.problems().len() == 1);
    assert_eq!((&*pod.problems()[0].0, trials(&pod).len()), ("eager-sync-forbidden", 0));
}

/// A Role without `create` is the better one where the Leases are made beforehand.
#[test]
fn leases_that_exist_need_not_be_created() {
    for (exists, wanted) in [(true, vec![]), (false, vec!["slots-forbidden"])] {
        let pod = Pod::start(|server| {
            if exists {
                let leases = "/apis/coordination.k8s.io/v1/namespaces/test/leases";
                let lease = json!({"metadata": {"name": "web-0"}, "spec": {}});
                server.with_store(|store| store.create(leases, lease)).unwrap();
            }
            server.revoke("create", "leases");
        });
        wait_until("the rights are asked for", || pod.server.reviews().len() == 10);
        pod.agent.wait_for("preflight", 1 + wanted.len());
        let problems: Vec<String> = pod.problems().into_iter().map(|(name, _)| name).collect();
        assert_eq!(problems, wanted);
    }
}

/// The kubelet renews the token while podnudge starts, for example.
#[test]
fn a_right_is_found_missing_although_the_first_request_was_refused() {
    for fault in [Fault::Status(401, ""), Fault::Status(500, "")] {
        let pod = Pod::start(|server| {
            server.revoke("get", "pods");
            server.inject("selfsubjectaccessreviews", fault);
        });
        wait_until("podnudge asks again", || pod.problems().len() == 1);
        assert_eq!(pod.problems()[0].0, "readiness-forbidden");
    }
}

/// Of the rights, and of eager sync.
#[test]
fn a_server_that_does_not_answer_does_not_delay_the_end_of_podnudge() {
    let mut pod = Pod::start(|server| server.partition("", Fault::Late));
    wait_until("podnudge asks", || {
        !pod.server.reviews().is_empty() && !pod.server.seen().is_empty()
    });
    pod.agent.signal(Signal::SIGTERM);
    assert_eq!(pod.agent.exit_code(), Some(0));
    assert_eq!(pod.agent.count("grace-over"), 0, "{}", pod.agent.log());
    pod.server.heal();
}
