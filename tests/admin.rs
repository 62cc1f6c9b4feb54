//! The admin port and `podnudge status`, against a running podnudge.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use podnudge::admin::process_metrics::OwnProcess;
use podnudge::admin::status_table::Columns;
use podnudge::admin::{metrics, status_table};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::reason::Reason;
use podnudge_core::shown::Colours;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::{
    Counters, EagerSyncStatus, Histogram, ObjectStatus, RuleStatus, State, Status, TargetStatus,
    VolumeStatus,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::support::Scene as Pod;
use crate::support::http::wait;
use crate::support::{
    Agent, Application, Behaviour, ROLLED_OUT, Running, command, in_network, podnudge, request,
    respond, server, wait_until,
};

/// A running podnudge with its volume, application and admin address.
struct Scene {
    application: Application,
    agent: Agent,
    address: String,
    pod: Pod,
}

fn scene(more: &str) -> Scene {
    scene_with(more, "")
}

/// The same with more settings in `[agent]` and in the rule.
fn scene_with(more: &str, of_rule: &str) -> Scene {
    let pod = Pod::new();
    let application = pod.application();
    pod.write("token", "s3cret\n");
    let agent = pod.configured(&format!(
        "[agent]\n{more}\n[[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\n\
         on-start = \"never\"\nsettle = \"0s\"\n{of_rule}\nhttp.url = \"{}\"\n",
        application.url()
    ));
    Scene { application, address: agent.address(), agent, pod }
}

impl Scene {
    /// Sends a request verbatim, and returns the whole response.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        answer
    }

    fn send(&self, method: &str, path: &str, headers: &str) -> String {
        self.ask(&format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"
        ))
    }
}

#[test]
fn endpoints_answer_get_and_head_and_other_requests_are_rejected() {
    let scene = scene("");
    for (path, part) in [
        ("/", "podnudge"),
        ("/livez", "ok\n"),
        ("/readyz", "ok\n"),
        ("/status", "\"in_sync\": \"unknown\""),
        ("/metrics", "podnudge_evidence{rule=\"app\",evidence=\"none\"} 1"),
    ] {
        let answer = scene.send("GET", path, "");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(part), "{path}: {answer}");
        let answer = scene.send("HEAD", path, "");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        let answer = scene.send("DELETE", path, "");
        assert!(
            answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"),
            "{answer}"
        );
    }
    let answer = scene.send("GET", "/other", "");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("see / /metrics "), "{answer}");
    assert!(scene.send("POST", "/reload", "").starts_with("HTTP/1.1 404 "));
}

/// What the page shows is in `/status`, too.
#[test]
fn the_page_and_the_status_show_what_became_of_changes() {
    let mut scene = scene("");
    let content = crate::support::payload(&[("a.conf", "2"), ("b.conf", "1")]);
    scene.pod.kubelet.write(&content);
    scene.agent.wait_for(ROLLED_OUT, 1);
    scene.pod.change("broken");
    scene.agent.wait_for("gave-up|retrying", 1);
    let status = scene.send("GET", "/status", "");
    let json = status.split_once("\r\n\r\n").unwrap().1;
    let status: serde_json::Value = serde_json::from_str(json).unwrap();
    let changes = status["rules"][0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{changes:#?}");
    assert_eq!(changes[0]["keys"]["removed"][0], "b.conf");
    let message = changes[0]["reason"]["message"].as_str().unwrap();
    assert!(message.contains("400"), "{message}");
    let applied = &changes[1];
    assert_eq!(applied["outcome"], "applied");
    assert_eq!(
        (&applied["keys"]["changed"][0], &applied["keys"]["added"][0]),
        (&"a.conf".into(), &"b.conf".into())
    );
    let steps = applied["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["settle"]) && names.contains(&"act"), "{names:?}");
    assert!(applied["committed_at"].as_f64() <= applied["ended_at"].as_f64(), "{applied:#}");

    let page = scene.send("GET", "/", "");
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(page.contains(message) && page.contains("✓ applied</strong> (accepted)"), "{page}");
    assert!(page.contains("added <code>b.conf</code>"), "{page}");
}

#[test]
fn a_reload_request_needs_loopback_or_the_token() {
    let by_loopback = scene("reload = \"loopback\"");
    let from_page = by_loopback.send("POST", "/reload", "origin: http://evil.example\r\n");
    assert!(from_page.starts_with("HTTP/1.1 403 "), "{from_page}");
    assert!(by_loopback.send("POST", "/reload?rule=other", "").starts_with("HTTP/1.1 404 "));
    assert!(by_loopback.send("GET", "/reload", "").starts_with("HTTP/1.1 405 "));
    assert_eq!(by_loopback.application.reloads().len(), 0);
    assert!(by_loopback.send("POST", "/reload?rule=app", "").starts_with("HTTP/1.1 202 "));
    by_loopback.agent.wait_for(ROLLED_OUT, 1);

    let by_token = scene("reload-token-file = \"FOLDER/token\"");
    for wrong in ["", "authorization: Bearer s3cre\r\n", "authorization: Bearer s3cret2\r\n"] {
        assert!(by_token.send("POST", "/reload", wrong).starts_with("HTTP/1.1 401 "), "{wrong}");
    }
    let right = "authorization: Bearer s3cret\r\n";
    assert!(by_token.send("POST", "/reload", right).starts_with("HTTP/1.1 202 "));
    by_token.agent.wait_for(ROLLED_OUT, 1);
    fs::write(by_token.pod.path("token"), "rotated").unwrap();
    assert!(by_token.send("POST", "/reload", right).starts_with("HTTP/1.1 401 "));
    fs::remove_file(by_token.pod.path("token")).unwrap();
    assert!(by_token.send("POST", "/reload", right).starts_with("HTTP/1.1 503 "));
    by_token.agent.wait_for("token-unreadable", 1);
    assert_eq!(by_token.application.reloads().len(), 1);
}

#[test]
fn a_person_pauses_resumes_and_approves() {
    let mut scene = scene("reload = \"loopback\"");
    let address = scene.agent.address();
    let ask = |arguments: &[&str]| {
        let mut command = podnudge();
        let output = command.args(arguments).args(["--url", &format!("http://{address}")]).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = ask(&["approve"]);
    assert_eq!(code, Some(69));
    assert!(text.contains("nothing is held") && text.contains("podnudge trigger"), "{text}");
    assert_eq!(
        ask(&["pause", "app", "--for", "30m"]),
        (Some(0), "paused for 30m; `podnudge resume` ends it\n".to_owned())
    );
    let (code, text) = ask(&["pause", "other"]);
    assert_eq!(code, Some(69));
    assert!(text.contains("there is no rule `other`") && text.contains("`app`"), "{text}");
    let (code, text) = ask(&["pause", "--for", "9d"]);
    assert_eq!(code, Some(64));
    assert!(text.contains("--for: must be at most `7days`"), "{text}");
    assert!(scene.send("POST", "/pause?for=1y", "").starts_with("HTTP/1.1 400 "));
    // A misspelt parameter would make an order for all rules of one for a rule.
    for wrong in
        ["/reload?rules=app", "/reload?for=1h", "/pause?Rule=app", "/pause?rule=app&time=1m"]
    {
        let answer = scene.send("POST", wrong, "");
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("unknown parameter `"),
            "{answer}"
        );
    }

    scene.agent.wait_for("paused", 1);
    let (_, text) = ask(&["status"]);
    assert!(text.contains("paused: by a person, for another 29m"), "{text}");
    scene.pod.change("held");
    scene.agent.wait_for("held", 1);
    assert!(
        scene
            .send("GET", "/metrics", "")
            .contains("podnudge_paused_until_timestamp_seconds{rule=\"app\"}")
    );
    assert!(scene.send("GET", "/", "").contains("Paused"));
    assert_eq!(scene.application.reloads().len(), 0);
    assert_eq!(ask(&["approve", "app"]).0, Some(0));
    scene.agent.wait_for(ROLLED_OUT, 1);
    scene.pod.change("held again");
    scene.agent.wait_for("held", 2);
    assert_eq!(ask(&["resume"]).0, Some(0));
    scene.agent.wait_for(ROLLED_OUT, 2);
    assert!(
        !scene.send("GET", "/metrics", "").contains("podnudge_paused_until_timestamp_seconds{")
    );
}

/// The socket of podnudge's own container needs neither a port nor a setting. The other containers of the pod can connect
/// to it, and get no answer.
#[test]
fn people_in_the_container_of_podnudge_need_no_port_and_no_setting() {
    in_network!();
    let scene = Pod::new().mounted_at("/etc/app");
    let mut container =
        scene.contained(&["sh", "-c", "podnudge=$0; \"$podnudge\" \"$@\" & echo $!; wait"]);
    container.arg(env!("CARGO_BIN_EXE_podnudge")).args(["--listen", "off", "--log", "json"]);
    container.args(["--watch", "/etc/app", "--exec", "true"]);
    let agent = Agent::spawn_until("baseline|scheduled|fresh", scene.folder.path(), container);
    let enter = |podnudge: &[&str]| {
        let target = agent.pid().to_string();
        let mut entered = command("nsenter");
        entered
            .args(["--mount", "--target", &target])
            .arg(env!("CARGO_BIN_EXE_podnudge"))
            .args(podnudge);
        entered.output().unwrap()
    };
    let text = |output: &std::process::Output| {
        String::from_utf8([output.stdout.clone(), output.stderr.clone()].concat()).unwrap()
    };
    let status = enter(&["status"]);
    assert!(text(&status).contains("default"), "{}", text(&status));
    let paused = enter(&["pause"]);
    assert_eq!(text(&paused), "paused for 1h; `podnudge resume` ends it\n");
    agent.wait_for("paused", 1);
    assert_eq!(enter(&["resume"]).status.code(), Some(0));
    agent.wait_for("resumed", 1);

    // Another container does not find it, and is not answered if it takes the name.
    let other = scene.contained(&[env!("CARGO_BIN_EXE_podnudge"), "trigger"]).output().unwrap();
    assert_eq!(other.status.code(), Some(69));
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let name = sockets.split_once("@podnudge-in-").unwrap().1.lines().next().unwrap();
    let ask = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0podnudge-in-' + sys.argv[1])\n\
               s.sendall(b'POST /reload HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n')\nprint(len(s.recv(100)))\n";
    let asked = scene.contained(&["python3", "-c", ask, name]).output().unwrap();
    assert!(
        !text(&asked).contains("accepted")
            && !text(&asked).starts_with(|c: char| ('1'..='9').contains(&c)),
        "{}",
        text(&asked)
    );
    assert_eq!(agent.count("triggered"), 0, "{}", agent.log());
}

/// Sends a request from one address to another.
fn send_from(from: &str, to: &str, request: &str) -> String {
    send_to_name(from, to, to, request)
}

/// The same with this name of the host.
fn send_to_name(from: &str, to: &str, name: &str, request: &str) -> String {
    wait(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(to.parse().unwrap()).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n");
        stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    })
}

/// A service mesh redirects requests from outside, which then come from 127.0.0.6.
#[test]
fn only_the_pod_itself_and_the_token_get_digests_and_reasons() {
    in_network!();
    let added = command("ip").args(["address", "add", "10.1.2.3/32", "dev", "lo"]).status();
    assert!(added.unwrap().success());
    for agent in ["reload = \"loopback\"", "reload-token-file = \"FOLDER/token\""] {
        let mut scene = Pod::new();
        let config = format!(
            "[agent]\nlisten = \"0.0.0.0:0\"\nlog = \"json\"\nwork-dir = \"FOLDER\"\ndigests-in-metrics = \"all\"\n{agent}\n\
             [[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\non-start = \"never\"\nsettle = \"0s\"\n\
             http.url = \"http://127.0.0.1:9/\"\n\
             [[rule.check]]\nexec = [\"sh\", \"-c\", \"echo password=hunter2; exit 1\"]\n",
        );
        scene.write("token", "s3cret");
        let mut command = podnudge();
        command.arg("--config").arg(scene.write("podnudge.toml", &config));
        let podnudge = scene.start(command, "baseline");
        scene.change("2");
        podnudge.wait_for("rejected", 1);
        let digest = podnudge.last("rejected", "digest");
        let port = podnudge.last("started", "listen").replace("0.0.0.0", "");
        let sees = |from: &str, to: &str, more: &str| {
            let answer = send_from(from, &format!("{to}{port}"), &format!("GET /status{more}"));
            assert!(answer.contains("\"state\": \"rejected\""), "{answer}");
            let sees = answer.contains("hunter2");
            assert_eq!(sees, answer.contains(&digest), "{answer}");
            {
                assert_eq!(sees, answer.contains("\"a.conf\""), "{answer}");
                let page = send_from(from, &format!("{to}{port}"), &format!("GET /{more}"));
                assert!(page.contains("✗ rejected</strong>"), "{page}");
                for secret in ["hunter2", "<code>a.conf</code>", &digest] {
                    assert_eq!(sees, page.contains(secret), "{page}");
                }
            }
            sees
        };
        // The name of a site resolves to 127.0.0.1, as its page in a browser finds at the forwarded port.
        let to = format!("127.0.0.1{port}");
        let of_site = send_to_name("127.0.0.1", &to, "evil.example:9533", "GET /status");
        assert!(
            of_site.contains("\"state\": \"rejected\"") && !of_site.contains("hunter2"),
            "{of_site}"
        );
        // The metrics are for Prometheus, and have the digests that the configuration allows.
        let page = send_from("10.1.2.3", &format!("10.1.2.3{port}"), "GET /metrics");
        assert!(page.contains("podnudge_config_info{rule=\"app\""), "{page}");
        let token = " HTTP/1.1\r\nauthorization: Bearer s3cret\r\nx: ";
        let by_token = agent.contains("token");
        assert!(sees("127.0.0.1", "127.0.0.1", ""));
        assert!(!sees("10.1.2.3", "10.1.2.3", ""));
        assert!(!sees("127.0.0.6", "10.1.2.3", ""));
        assert!(!sees("127.0.0.6", "127.0.0.1", ""));
        assert!(!sees("127.0.0.1", "10.1.2.3", ""));
        assert_eq!(sees("10.1.2.3", "10.1.2.3", token), by_token);
        for (from, to) in [("127.0.0.6", "10.1.2.3"), ("127.0.0.6", "127.0.0.1")] {
            let answer = send_from(from, &format!("{to}{port}"), "POST /reload");
            let refused = if by_token { "HTTP/1.1 401 " } else { "HTTP/1.1 403 " };
            assert!(answer.starts_with(refused), "{answer}");
        }
    }
}

#[test]
fn a_trigger_approves_held_content() {
    let mut scene = scene_with(
        "reload-token-file = \"FOLDER/token\"",
        "hold = { approve-before = \"rollout\" }",
    );
    let url = format!("http://{}", scene.address);
    let token = scene.pod.path("token");
    let trigger = |more: &[&str]| {
        let mut command = podnudge();
        command.args(["trigger", "--url", &url]).args(more).output().unwrap()
    };
    scene.pod.change("2");
    scene.agent.wait_for("held", 1);
    let refused = trigger(&[]);
    assert_eq!(refused.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("401"), "{refused:?}");
    let token = token.to_str().unwrap();
    assert_eq!(trigger(&["other", "--token-file", token]).status.code(), Some(69));
    assert_eq!(scene.application.reloads().len(), 0);
    assert!(trigger(&["app", "--token-file", token]).status.success());
    scene.agent.wait_for(ROLLED_OUT, 1);
}

#[test]
fn slow_large_and_many_requests_do_not_block_probes() {
    let scene = scene("");
    let large = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1024 * 1024));
    let mut stream = TcpStream::connect(&scene.address).unwrap();
    drop(stream.write_all(large.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP/1.1 200"));

    // Each of these clients is disconnected after 2 s; a probe must not have to wait for that.
    let slow = slow_clients(&scene.address, 200);
    let mut probe = TcpStream::connect(&scene.address).unwrap();
    probe.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    probe.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(slow);
}

fn slow_clients(address: &str, many: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HT").unwrap();
        stream
    };
    (0..many).map(connect).collect()
}

/// Without a free descriptor podnudge cannot inspect the target, and must not conclude that the
/// target has exited.
#[test]
fn exhausted_descriptors_neither_trip_the_breaker_nor_cause_a_busy_loop() {
    let mut scene = Pod::new();
    let target = scene.target("app", Behaviour::Handles);
    scene.write("pid", &target.pid().to_string());
    let podnudge = scene.podnudge_by(&["prlimit", "--nofile=24:24"]);
    let options = ["--signal", "HUP", "--alive-for", "1s", "--pidfile", "FOLDER/pid"];
    let agent = scene.nudge_by(podnudge, &options);
    let address = agent.address();
    scene.change("2");
    agent.wait_for("sent", 1);
    let slow = slow_clients(&address, 40);
    agent.wait_for(ROLLED_OUT, 1);
    drop(slow);
    assert_eq!((agent.count("tripped"), target.signals()), (0, 1));
    // User and system time in ticks of 10 ms (proc(5)).
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).unwrap();
    let times: Vec<u64> =
        stat.split(' ').skip(13).take(2).map(|time| time.parse().unwrap()).collect();
    assert!(times.iter().sum::<u64>() < 50, "ticks of user and system time: {times:?}");
}

#[test]
fn status_prints_a_table_and_reports_in_sync_by_its_exit_code() {
    let mut scene = scene("");
    let url = format!("http://{}", scene.address);
    let status = |arguments: &[&str]| {
        let output = podnudge().args(["status", "--url", &url]).args(arguments).output().unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), text)
    };
    let (code, text) = status(&[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("RULE  STATE  IN-SYNC"), "{text}");
    let (code, text) = status(&["--json"]);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["rules"][0]["name"], "app");
    assert!(status(&["-o", "json"]).1.contains("\"name\": \"app\""));
    let (code, text) = status(&["--output=wide"]);
    assert!(code == 0 && text.contains("NEXT-ACTION  RUNNING  "), "{text}");
    scene.pod.change("2");
    scene.agent.wait_for(ROLLED_OUT, 1);
    scene.pod.kubelet.remove();
    scene.agent.wait_for("volume-missing", 1);
    let (code, text) = status(&[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("waiting-for-volume"), "{text}");
    assert!(text.contains("nothing exists at a watched path") && text.contains("hint"), "{text}");
    scene.agent.kill();
    let (code, text) = status(&[]);
    assert_eq!(code, 69, "{text}");
    assert!(text.contains("no process listens there") && text.contains("hint: "), "{text}");
}

#[test]
fn status_can_be_watched_until_podnudge_has_ended() {
    let mut scene = scene("");
    let url = format!("http://{}", scene.address);
    let file = scene.pod.path("watched");
    let words = [env!("CARGO_BIN_EXE_podnudge"), "status", "--watch", "--url", &url];
    let mut watch = Running::logged(&words, &file);
    let shown = || fs::read_to_string(&file).unwrap();
    wait_until("the status is printed", || shown().matches("RULE").count() == 1);
    scene.pod.change("2");
    scene.agent.wait_for(ROLLED_OUT, 1);
    wait_until("the new status is printed", || shown().matches("RULE").count() >= 2);
    scene.agent.kill();
    wait_until("its end is reported", || shown().contains("no process listens there"));
    assert!(watch.is_running());
}

/// Runs a podnudge command in the network namespace of a running podnudge.
fn run_beside(agent: &Agent, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command("nsenter");
    command.args(["--net", "--target", &agent.pid().to_string()]);
    let output = command.arg(env!("CARGO_BIN_EXE_podnudge")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// In an IPv6-only cluster the kubelet sends its probes to the pod's IPv6 address.
#[test]
fn the_default_listener_serves_ipv4_and_ipv6_and_recognizes_loopback_in_both() {
    let scene = Pod::new();
    let file = scene.write(
        "podnudge.toml",
        "[agent]\nlog = \"json\"\nreload = \"loopback\"\n[[rule]]\nwatch = \"FOLDER/volume\"\n\
         on-start = \"never\"\nhttp = { url = \"http://127.0.0.1:9/\" }\n",
    );
    let mut command = command("unshare");
    // On some nodes a socket accepts IPv6 only unless it sets an option.
    let script =
        "ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only && exec \"$0\" \"$@\"";
    command.args(["--net", "sh", "-ec", script, env!("CARGO_BIN_EXE_podnudge")]);
    command.args(["--config", &file]);
    let agent = scene.start(command, "baseline");
    assert_eq!(agent.last("started", "listen"), "[::]:9533");
    for url in [&[][..], &["--url", "http://[::1]:9533"], &["--url", "http://127.0.0.1:9533"]] {
        assert_eq!(run_beside(&agent, &[&["status"], url].concat()), (Some(0), String::new()));
        assert_eq!(run_beside(&agent, &[&["trigger"], url].concat()), (Some(0), String::new()));
    }
}

/// The kernel was booted with `ipv6.disable=1`, or there is no IPv6 address to bind to.
#[test]
fn without_ipv6_the_listener_serves_ipv4() {
    let scene = Pod::new();
    for missing in ["socket:error=EAFNOSUPPORT", "bind:error=EADDRNOTAVAIL"] {
        let mut command = command("strace");
        let inject = format!("inject={missing}:when=1");
        // -D detaches the tracer, so that the child process is podnudge itself.
        command.args(["-D", "-f", "-qqq", "-o", "/dev/null", "-e", &inject]);
        command.args([env!("CARGO_BIN_EXE_podnudge"), "--log", "json", "--listen", ":0"]);
        let agent = scene.nudge_by(command, &["--url", "http://127.0.0.1:9/"]);
        let address = agent.address();
        assert!(address.starts_with("0.0.0.0:"), "{missing}: {address}");
        drop(TcpStream::connect(&address).unwrap());
    }
}

fn sample() -> Status {
    let at = |seconds| UnixTime(Duration::from_secs(seconds));
    let mut took = Histogram::default();
    took.observe(0.3);
    took.observe(4000.0);
    let counters = Counters {
        commits: 3,
        unchanged: 1,
        actions_delivered: 2,
        actions_applied: 1,
        actions_tripped: 1,
        commit_to_applied: took,
        ..Counters::default()
    };
    let volume = VolumeStatus {
        path: "/etc/\"app\"".to_owned(),
        present: true,
        committed_at: Some(at(1_700_000_090)),
        backend: "inotify",
        reason: None,
    };
    let rule = RuleStatus {
        name: "app".to_owned(),
        state: State::Waiting,
        reason: Some(Reason::new("process 41 (app) ended").hint("look at its log")),
        in_sync: InSync::No,
        evidence: Evidence::None,
        digest_on_disk: Some(Digest([0xab; 32])),
        digest_applied: None,
        digest_running: Some(Digest([0xcd; 32])),
        digest_published: None,
        shows_digests: true,
        certificates_expire_at: None,
        not_ready: None,
        committed_at: Some(at(1_700_000_090)),
        applied_at: None,
        succeeded_at: Some(at(1_700_000_050)),
        next_action_at: Some(at(1_700_000_112)),
        paused_until: None,
        slot: None,
        start_expected_at: Some(at(1_700_000_120)),
        start_delay_seconds: Some(20),
        action: "signal".into(),
        proof: "children-newer".to_owned(),
        targets: vec![TargetStatus { pid: 41, name: "my \"app\"".to_owned() }],
        preflight: Vec::new(),
        volumes: vec![volume],
        changes: Vec::new(),
        counters,
    };
    Status {
        version: "1.2.3",
        pod: None,
        now: at(1_700_000_100),
        started: at(1_700_000_000),
        ready: true,
        serving: true,
        unhealthy: None,
        log_lines_dropped: 0,
        rules: vec![rule],
        eager_sync: None,
        reloads: None,
    }
}

/// The same with eager sync.
fn eager_sample() -> Status {
    let mut edit_to_commit = Histogram::default();
    edit_to_commit.observe(0.25);
    let watched = ObjectStatus {
        name: "configmap/app".to_owned(),
        watched: true,
        edited_at: Some(UnixTime(Duration::from_secs(1_700_000_080))),
        edit_to_commit_seconds: Some(0.25),
        reason: None,
    };
    let refused = ObjectStatus {
        name: "secret/tls".to_owned(),
        watched: false,
        edited_at: None,
        edit_to_commit_seconds: None,
        reason: Some(Reason::new("cannot list the Secret `tls`").hint("add to the Role")),
    };
    let objects = vec![watched, refused];
    let eager = EagerSyncStatus { objects, reason: None, syncs_requested: 2, edit_to_commit };
    Status { eager_sync: Some(eager), ..sample() }
}

#[test]
fn eager_sync_has_series_and_lines_of_its_own() {
    let series = |status: &Status| metrics::render(status, &OwnProcess::default());
    let (with, without) = (series(&eager_sample()), series(&sample()));
    let more: Vec<&str> =
        with.lines().filter(|line| !without.lines().any(|other| other == *line)).collect();
    insta::assert_snapshot!(more.join("\n"));
    let json = serde_json::to_string(&eager_sample()).unwrap();
    let (text, _) = status_table::render(&json, Columns::Most, Colours::Off).unwrap();
    insta::assert_snapshot!(
        text.lines().skip_while(|l| !l.starts_with("object")).collect::<Vec<_>>().join("\n")
    );
    let shown = serde_json::to_string(&eager_sample().for_anybody()).unwrap();
    assert!(!shown.contains("cannot list"), "{shown}");
}

#[test]
fn metrics_are_openmetrics_text() {
    let process = OwnProcess {
        start_time: Some(1_699_999_999.5),
        cpu_seconds: Some(0.25),
        resident_bytes: Some(4 << 20),
        virtual_bytes: Some(8 << 20),
        open_fds: Some(9),
        max_fds: Some(1024),
    };
    insta::assert_snapshot!(metrics::render(&sample(), &process));
}

/// What Prometheus and its tools expect of clients that do not ask for OpenMetrics.
#[test]
fn the_metrics_pass_promtool_in_the_text_format() {
    let scene = scene("");
    let answer = scene.send("GET", "/metrics", "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let mut promtool = command("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let complaints =
        String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{complaints}\n{body}");
    let accept = "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let answer = scene.send("GET", "/metrics", accept);
    assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"));
}

#[test]
fn the_table_is_for_people() {
    let json = serde_json::to_string(&sample()).unwrap();
    let (text, in_sync) = status_table::render(&json, Columns::Most, Colours::Off).unwrap();
    assert!(!in_sync);
    insta::assert_snapshot!(text);
    assert!(status_table::render("<html>", Columns::Most, Colours::Off).is_err());
}

/// Another process may have taken the port.
#[test]
fn podnudge_status_prints_nothing_that_controls_a_terminal() {
    let mut status = sample();
    let rule = &mut status.rules[0];
    rule.name = "app\u{1b}]0;title\u{7}".to_owned();
    rule.targets[0].name = "a\u{202e}b\u{9b}2J".to_owned();
    rule.reason = Some(Reason::new("one\ntwo\u{1b}[1A").hint("\u{7f}"));
    let json = serde_json::to_string(&status).unwrap();
    let body = json.clone();
    let url = server(move |mut stream| {
        request(&stream);
        respond(&mut stream, "200 OK", "", &body);
    });
    for option in [&[][..], &["--json"]] {
        let mut command = podnudge();
        let output = command.arg("status").args(option).args(["--url", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let controls = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.is_empty() && !text.contains(controls), "{text:?}");
        if !option.is_empty() {
            let same: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(same, serde_json::from_str::<serde_json::Value>(&json).unwrap());
        }
    }
}

#[test]
fn podnudge_status_reads_no_endless_answer() {
    let url = server(|mut stream| {
        request(&stream);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
        while stream.write_all(&[b' '; 8192]).is_ok() {}
    });
    let output = podnudge().args(["status", "--url", &url]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("its answer is longer than 4 MiB"), "{said}");
}
