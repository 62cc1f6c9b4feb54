//! The pods that kustomize, helm and the injection make, with podnudge in an image of its own and in that of the
//! application: both forms work as processes, and each way to add podnudge makes the same containers.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::manifests::{
    WORKLOADS, admit, as_texts, assert_starts, by_name, chart, documents, kustomized, object,
    remove, take_podnudge, templated, texts, violations,
};
use crate::support::{Agent, Kubelet, SharedPod, ask, in_network, payload, podnudge, wait_until};

const INSTALLED: [&str; 2] = ["component", "component/installed"];

/// The pod of this workload.
fn pod(documents: &[Value], kind: &str, name: &str) -> Value {
    object(documents, kind, name)["spec"]["template"]["spec"].clone()
}

/// Removes both containers of the form from a pod that kustomize made, and returns them.
fn take_installed(pod: &mut Value) -> [Value; 2] {
    let podnudge = take_podnudge(pod, "initContainers");
    let install = remove(pod, "initContainers");
    let [install] = &install.as_array().unwrap()[..] else { panic!("{install}") };
    [install.clone(), podnudge]
}

#[test]
fn the_component_installs_podnudge_in_the_image_of_the_application() {
    let before = documents(&kustomized(&["component"], "").unwrap());
    let after = documents(&kustomized(&INSTALLED, "").unwrap());
    for (kind, name) in WORKLOADS {
        let (mut before, mut after) = (pod(&before, kind, name), pod(&after, kind, name));
        assert_eq!(violations(&after), <[String; 0]>::default());
        let names: Vec<Value> = after["initContainers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].clone())
            .collect();
        assert_eq!(names, ["podnudge-install", "podnudge"], "it is there before it runs");
        let [install, mut podnudge] = take_installed(&mut after);
        assert_eq!(install["image"], "podnudge:0.1.0");
        assert_eq!(texts(&install["args"]), ["install", "/opt/podnudge"]);
        assert_starts(&podnudge);
        assert_eq!(podnudge["image"], after["containers"][0]["image"]);
        assert_eq!(texts(&remove(&mut podnudge, "command")), ["/usr/local/bin/podnudge"]);

        // The rest is as in podnudge's own image, but for memory, the program and a folder for copies.
        let mut bare = take_podnudge(&mut before, "initContainers");
        podnudge["image"] = bare["image"].clone();
        let memory = |one: &mut Value| remove(one, "resources")["limits"]["memory"].clone();
        assert_eq!((memory(&mut bare), memory(&mut podnudge)), ("32Mi".into(), "64Mi".into()));
        for (volume, mount) in [
            ("podnudge-work", json!({"mountPath": "/tmp"})),
            (
                "podnudge-program",
                json!({"mountPath": "/usr/local/bin/podnudge", "subPath": "podnudge", "readOnly": "true"}),
            ),
        ] {
            let mut found = podnudge["volumeMounts"].as_array_mut().unwrap().pop().unwrap();
            assert_eq!(remove(&mut found, "name"), volume);
            assert_eq!(found, mount);
            let mut found = after["volumes"].as_array_mut().unwrap().pop().unwrap();
            assert_eq!(remove(&mut found, "name"), volume);
            assert_eq!(found, json!({"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}));
        }
        assert_eq!(podnudge, bare);
        remove(&mut before, "initContainers");
        assert_eq!(after, before, "the rest is the same");
    }
    let wrong = kustomized(&["component", "component/installed", "component/state"], "");
    assert!(wrong.unwrap_err().contains("initContainers/0"), "another order is refused");
}

/// The other components come before it, and `images` of a kustomization sets both images.
#[test]
fn the_component_can_be_combined_with_the_others_and_with_other_images() {
    let components =
        ["component", "component/file", "component/state", "component/drain", "access"];
    let file = "configMapGenerator:\n  - name: podnudge\n    literals: [podnudge.toml=x]\n";
    let images = "images: [{name: podnudge, newTag: \"1\"}, {name: nginx, newTag: \"2\"}]\n";
    let all = [&components[..], &["component/installed"]].concat();
    let made = documents(&kustomized(&all, &format!("{file}{images}")).unwrap());
    let bare = documents(&kustomized(&components, &format!("{file}{images}")).unwrap());
    for (kind, name) in WORKLOADS {
        let [install, podnudge] = take_installed(&mut pod(&made, kind, name));
        assert_eq!(
            (&install["image"], &podnudge["image"]),
            (&"podnudge:1".into(), &"nginx:2".into())
        );
        let bare = take_podnudge(&mut pod(&bare, kind, name), "initContainers");
        for key in ["args", "env", "readinessProbe"] {
            assert_eq!(podnudge[key], bare[key]);
        }
    }
}

#[test]
fn the_chart_and_the_injection_install_podnudge_as_the_component_does() {
    let component = documents(&kustomized(&INSTALLED, "").unwrap());
    let mut component = pod(&component, "Deployment", "site");
    let [wanted_install, mut wanted] = take_installed(&mut component);
    remove(&mut wanted, "envFrom");
    // By each way the volume is somewhere else.
    let unmounted = |mut container: Value| {
        remove(&mut container, "args");
        container["volumeMounts"]
            .as_array_mut()
            .unwrap()
            .retain(|mount| mount["name"].as_str().unwrap().starts_with("podnudge"));
        container
    };
    let wanted = unmounted(wanted);
    let ours = |pod: &Value| -> Vec<(String, Value)> {
        let mut volumes = by_name(&pod["volumes"], "name");
        volumes.retain(|(name, _)| name.starts_with("podnudge"));
        volumes
    };

    let chart = chart();
    let image = "podnudge.installed={\"image\": \"nginx:1.29\"}";
    let made = documents(&templated(chart.path(), &[image]).unwrap());
    let mut native = pod(&made, "Deployment", "site");
    assert_eq!(violations(&native), <[String; 0]>::default());
    let volumes = ours(&native);
    let [install, podnudge] = take_installed(&mut native);
    assert_eq!(install, wanted_install);
    assert_eq!(unmounted(podnudge), wanted);
    assert_eq!(volumes, ours(&component));

    let made = documents(&templated(chart.path(), &[image, "classic=true"]).unwrap());
    let mut classic = pod(&made, "Deployment", "site");
    let mut podnudge = unmounted(take_podnudge(&mut classic, "containers"));
    podnudge["restartPolicy"] = "Always".into();
    assert_eq!(podnudge, wanted);
    assert_eq!(classic["initContainers"], json!([wanted_install]));

    let request = json!({
        "operation": "CREATE", "namespace": "test",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    });
    let injected = |annotation: &str, init: Value| {
        let mut spec = component.clone();
        spec["initContainers"] = init;
        spec["containers"][0]["imagePullPolicy"] = "Always".into();
        let volumes = spec["volumes"].as_array_mut().unwrap();
        volumes.retain(|one| !one["name"].as_str().unwrap().starts_with("podnudge"));
        let metadata = json!({
            "labels": {"podnudge.io/inject": "true"}, "annotations": {"podnudge.io/installed": annotation},
        });
        let object = json!({"metadata": metadata, "spec": spec});
        let input = json!({"request": request, "object": object, "oldObject": null});
        admit(&["k8s/injection/policy.yaml"], &input)
    };
    let mut pod = as_texts(injected("true", json!([])).object["spec"].clone());
    assert_eq!(ours(&pod), ours(&component));
    let [install, mut podnudge] = take_installed(&mut pod);
    assert_eq!(install, wanted_install);
    assert_eq!(remove(&mut podnudge, "imagePullPolicy"), "Always");
    let uid = remove(&mut podnudge["securityContext"], "runAsUser");
    assert_eq!(uid, component["securityContext"]["runAsUser"]);
    assert_eq!(unmounted(podnudge), wanted);

    let first = json!([{"name": "first", "image": "first:1"}]);
    let admission = injected("true", first.clone());
    let names: Vec<&Value> = admission.object["spec"]["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["first", "podnudge-install", "podnudge"]);
    let bare = injected("false", first);
    assert_eq!(bare.object["spec"]["initContainers"][1]["image"], "podnudge:0.1.0");
    let message = "podnudge.io/installed: write \"true\" or \"false\"";
    assert_eq!(injected("yes", json!([])).denied, [message]);
}

/// nginx and podnudge in the pod that kustomize renders, as processes: each container has a mount namespace of its own
/// with the volume at the path of its mount, and the uid of the pod.
struct Rendered {
    agent: Agent,
    nginx: Child,
    kubelet: Kubelet,
    /// What nginx reads, with `version 1`.
    config: String,
    _pod: SharedPod,
    _folder: TempDir,
}

impl Drop for Rendered {
    fn drop(&mut self) {
        self.nginx.kill().unwrap();
        self.nginx.wait().unwrap();
    }
}

impl Rendered {
    /// Starts nginx, and podnudge with further environment variables.
    fn start(components: &[&str], environment: &[(&str, &str)]) -> Self {
        let made = documents(&kustomized(components, "").unwrap());
        let mut spec = pod(&made, "StatefulSet", "store");
        let sidecar = take_podnudge(&mut spec, "initContainers");
        let nginx = spec["containers"][0].clone();
        let uid = spec["securityContext"]["runAsUser"].as_str().unwrap().to_owned();

        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        for (path, mode) in [("", 0o755), ("tmp", 0o777), ("work", 0o777)] {
            fs::create_dir_all(at.join(path)).unwrap();
            fs::set_permissions(at.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let file = &object(&made, "ConfigMap", "nginx")["data"]["nginx.conf"];
        // A container runtime gives the standard error stream to the user of the container, and /tmp is its own.
        let config = file.as_str().unwrap().replace("/dev/stderr", "stderr");
        let config = config.replace("/tmp/", &format!("{}/tmp/", at.display()));
        let mut kubelet = Kubelet::new(at.join("volume"));
        kubelet.write(&payload(&[("nginx.conf", &*config)]));

        let shared = SharedPod::start(&at);
        // The paths of the mounts, below the folder of the test.
        let here = |text: &str| {
            text.replace("/watched/", &format!("{}/watched/", at.display()))
                .replace("/etc/web", &format!("{}/etc/web", at.display()))
        };
        let container = |id: char, of: &Value, program: &Path, args: &[String]| {
            let mounts = of["volumeMounts"].as_array().unwrap();
            let mount = mounts.iter().find(|it| it["name"] == "config").unwrap();
            let path = here(mount["mountPath"].as_str().unwrap());
            fs::create_dir_all(&path).unwrap();
            let mut start = shared.container(id);
            start.args(["unshare", "--mount", "sh", "-ec"]);
            start.arg("mount --bind \"$1\" \"$2\"; mount -o remount,bind,ro \"$2\"; uid=$3; shift 3; exec setpriv --reuid=\"$uid\" --regid=\"$uid\" --clear-groups --bounding-set=-all --inh-caps=-all \"$@\"");
            start.arg("sh").arg(at.join("volume")).arg(path).arg(&uid).arg(program);
            start.args(args.iter().map(|arg| here(arg)));
            start
        };
        let words = texts(&nginx["command"]);
        let nginx = container('a', &nginx, Path::new("nginx"), &words[1..]).spawn().unwrap();
        wait_until("nginx serves version 1", || serves("version 1"));

        let program = podnudge();
        // In a pod the /tmp of podnudge is its own; here the podnudges of other tests use it.
        let text = format!(
            "[agent]\nwork-dir = \"{}/work\"\n[[rule]]\nname = \"default\"\n",
            at.display()
        );
        fs::write(at.join("podnudge.toml"), text).unwrap();
        let mut args = texts(&sidecar["args"]);
        args.push(format!("--config={}/podnudge.toml", at.display()));
        let mut start = container('b', &sidecar, Path::new(program.get_program()), &args);
        for variable in sidecar["env"].as_array().unwrap() {
            if let Some(value) = variable["value"].as_str() {
                start.env(variable["name"].as_str().unwrap(), value);
            }
        }
        start.envs(environment.iter().copied());
        let agent = Agent::spawn(&at, start);
        wait_until("podnudge has found nginx", || {
            agent.count("preset") == 1 && agent.count("baseline|fresh|applied") == 1
        });
        Self { agent, nginx, kubelet, config, _pod: shared, _folder: folder }
    }

    /// Writes the configuration with this part replaced.
    fn edit(&mut self, part: &str, by: &str) {
        assert!(self.config.contains(part), "{}", self.config);
        self.kubelet.write(&payload(&[("nginx.conf", &*self.config.replace(part, by))]));
    }
}

fn serves(version: &str) -> bool {
    TcpStream::connect("127.0.0.1:8080").is_ok()
        && ask("127.0.0.1:8080", "GET", "/").contains(version)
}

#[test]
fn podnudge_reloads_nginx_in_the_rendered_pod_and_its_preflight_finds_nothing() {
    in_network!();
    let mut pod = Rendered::start(&["component"], &[]);
    let before = pod.agent.count("applied");
    pod.edit("version 1", "version 2");
    pod.agent.wait_for("applied", before + 1);
    assert_eq!(pod.agent.last("applied", "evidence"), "verified");
    assert!(serves("version 2"));
    let problems: BTreeSet<String> =
        pod.agent.events("preflight").iter().map(|line| line["problem"].to_string()).collect();
    assert_eq!(problems, BTreeSet::new(), "{}", pod.agent.log());
}

#[test]
fn podnudge_in_the_image_of_nginx_rejects_what_nginx_rejects_before_the_reload() {
    in_network!();
    let check = ("PODNUDGE_CHECK_EXEC", "nginx -t -q -c {dir}/nginx.conf");
    let mut pod = Rendered::start(&INSTALLED, &[check]);
    pod.edit("listen", "lisen");
    pod.agent.wait_for("rejected", 1);
    let reason = pod.agent.last("rejected", "reason");
    assert!(reason.contains("unknown directive \"lisen\""), "{reason}");
    assert!(serves("version 1"));
    let before = pod.agent.count("applied");
    pod.edit("version 1", "version 2");
    pod.agent.wait_for("applied", before + 1);
    assert!(serves("version 2"));
}
