//! Manifests as the real kubectl, helm and CEL make them, and what they have to have.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use podnudge::cli;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::program::command;
use super::yaml;

/// The kinds that podnudge is added to, and the names of the workloads of the tests.
pub(crate) const WORKLOADS: [(&str, &str); 3] =
    [("Deployment", "site"), ("StatefulSet", "store"), ("DaemonSet", "edge")];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that `.ci/tools` installs.
pub(crate) fn tool(name: &str) -> Command {
    let path = root().join("target/checks/bin").join(name);
    assert!(path.exists(), "{} is missing: run ./test, which installs it", path.display());
    let mut command = command(path);
    command.current_dir(root());
    command
}

/// What the program prints, if it succeeds.
pub(crate) fn output_of(mut command: Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// What kustomize makes of the workloads of the tests with these components of `k8s/`, and more of a
/// kustomization.
pub(crate) fn kustomized(components: &[&str], more: &str) -> Result<String, String> {
    // kustomize takes no absolute paths, and no files outside its folder.
    let folder = tempfile::tempdir_in(root().join("target")).unwrap();
    let components = components.iter().map(|name| format!("../../k8s/{name}")).collect::<Vec<_>>();
    let text = format!(
        "resources: [../../tests/kubernetes/workloads]\ncomponents: [{}]\n{more}",
        components.join(", ")
    );
    fs::write(folder.path().join("kustomization.yaml"), text).unwrap();
    let mut kubectl = tool("kubectl");
    kubectl.arg("kustomize").arg(folder.path());
    output_of(kubectl)
}

/// The chart of the tests with podnudge's chart as its dependency, as `helm dependency build` leaves it.
pub(crate) fn chart() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("tests/kubernetes/chart"), folder.path());
    copy(&root().join("k8s/chart"), &folder.path().join("charts/podnudge"));
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// What helm makes of a chart with these values, as `--set` takes them.
pub(crate) fn templated(chart: &Path, values: &[&str]) -> Result<String, String> {
    let mut helm = tool("helm");
    helm.args(["template", "release", "--namespace=test"]).arg(chart);
    helm.args(values.iter().flat_map(|value| ["--set-json", value]));
    output_of(helm)
}

/// The object of this kind and name.
pub(crate) fn object(documents: &[Value], kind: &str, name: &str) -> Value {
    let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
    documents.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}")).clone()
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    yaml::documents(text)
}

/// A value whose scalars are texts, as [`documents`] reads them.
pub(crate) fn as_texts(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(as_texts).collect(),
        Value::Object(map) => map.into_iter().map(|(key, it)| (key, as_texts(it))).collect(),
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// Removes podnudge's container from a pod and returns it.
pub(crate) fn take_podnudge(spec: &mut Value, place: &str) -> Value {
    let list = spec[place].as_array_mut().unwrap_or_else(|| panic!("no {place}"));
    let found: Vec<usize> = (0..list.len()).filter(|at| list[*at]["name"] == "podnudge").collect();
    let [at] = found[..] else { panic!("{found:?} in {place}") };
    list.remove(at)
}

pub(crate) fn remove(value: &mut Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key).unwrap_or_else(|| panic!("no {key}: {value}"))
}

/// The items of a list by their names, in any order.
pub(crate) fn by_name(list: &Value, key: &str) -> Vec<(String, Value)> {
    let items = list.as_array().unwrap().iter();
    let mut items: Vec<(String, Value)> =
        items.map(|one| (one[key].as_str().unwrap().to_owned(), one.clone())).collect();
    items.sort_by(|a, b| a.0.cmp(&b.0));
    items
}

pub(crate) fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// podnudge accepts the options and the environment of its container.
pub(crate) fn assert_starts(container: &Value) {
    let args = texts(&container["args"]);
    let words = std::iter::once("podnudge").chain(args.iter().map(String::as_str)).map(Into::into);
    let environment = container["env"].as_array().unwrap().iter().filter_map(|one| {
        let text = |key: &str| one[key].as_str().map(Into::into);
        Some((text("name")?, text("value")?))
    });
    let command = cli::parse(words, environment);
    assert!(matches!(command, Ok(cli::Command::Run(_))), "{container}");
}

/// The violations of the Pod Security Standard "restricted" that a pod of these manifests could have.
pub(crate) fn violations(spec: &Value) -> Vec<String> {
    let spec = as_texts(spec.clone());
    let mut all = Vec::new();
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[field] == "true" {
            all.push(field.to_owned());
        }
    }
    let allowed = ["configMap", "secret", "emptyDir", "projected", "downwardAPI", "name"];
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let kinds = volume.as_object().unwrap().keys();
        all.extend(kinds.filter(|kind| !allowed.contains(&kind.as_str())).cloned());
    }
    let none = json!({});
    let of_pod = spec.get("securityContext").unwrap_or(&none);
    for container in ["initContainers", "containers"]
        .into_iter()
        .flat_map(|place| spec[place].as_array().cloned().unwrap_or_default())
    {
        let name = container["name"].as_str().unwrap();
        let own = container.get("securityContext").unwrap_or(&none);
        let inherited =
            |key: &str| own.get(key).or_else(|| of_pod.get(key)).unwrap_or(&Value::Null);
        let wanted = [
            (inherited("runAsNonRoot") == "true", "runAsNonRoot"),
            (inherited("runAsUser") != "0", "runAsUser"),
            (inherited("seccompProfile")["type"] == "RuntimeDefault", "seccompProfile"),
            (own["allowPrivilegeEscalation"] == "false", "allowPrivilegeEscalation"),
            (own["capabilities"] == json!({"drop": ["ALL"]}), "capabilities"),
            (own.get("privileged").is_none(), "privileged"),
        ];
        all.extend(wanted.iter().filter(|(is, _)| !is).map(|(_, what)| format!("{name}: {what}")));
    }
    all
}

/// What becomes of a request under the policies of these files.
pub(crate) struct Admission {
    /// The object after the mutations.
    pub(crate) object: Value,
    /// Whether a mutation applied.
    pub(crate) is_mutated: bool,
    /// The messages of the validations that deny it.
    pub(crate) denied: Vec<String>,
}

/// A process that evaluates the policies of these files. It compiles their expressions once.
struct Evaluator {
    policies: Vec<String>,
    process: Child,
}

impl Evaluator {
    fn start(policies: &[&str]) -> Self {
        let mut python = tool("python");
        python.arg("tests/kubernetes/admission.py").args(policies);
        let process = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self {
            policies: policies.iter().map(|&file| file.to_owned()).collect(),
            process: process.spawn().unwrap(),
        }
    }

    fn answer(&mut self, request: &Value) -> Value {
        let process = &mut self.process;
        writeln!(process.stdin.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        // It prints nothing more until the next request.
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut error = String::new();
            process.stderr.as_mut().unwrap().read_to_string(&mut error).unwrap();
            panic!("{:?}: {error}", self.policies);
        }
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Evaluator {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

thread_local! {
    /// Those of this test, which has a thread of its own.
    static EVALUATORS: RefCell<Vec<Evaluator>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn admit(policies: &[&str], request: &Value) -> Admission {
    let mut answer = EVALUATORS.with_borrow_mut(|all| {
        let known = all.iter().position(|one| one.policies == policies);
        let place = known.unwrap_or_else(|| {
            all.push(Evaluator::start(policies));
            all.len() - 1
        });
        all[place].answer(request)
    });
    Admission {
        denied: texts(&answer["denied"]),
        is_mutated: answer["mutated"] == true,
        object: answer["object"].take(),
    }
}

/// All manifests below `k8s/`: no kustomizations, values and templates of the chart.
pub(crate) fn shipped() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("k8s")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            let is_patch = path == Path::new("k8s/component/sidecar.yaml");
            let is_manifest = path.extension().is_some_and(|ending| ending == "yaml")
                && !path.ends_with("kustomization.yaml")
                && !is_patch;
            if root().join(&path).is_dir() {
                let skipped = ["k8s/chart", "k8s/e2e"].map(Path::new);
                folders.extend((!skipped.contains(&path.as_path())).then_some(path));
            } else if is_manifest {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
