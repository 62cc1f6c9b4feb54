//! Proofs that an application applied a change, by real servers, sockets and programs, some of
//! which misbehave: a pending proof says what it is waiting for.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use podnudge::verify::proofs::{self, StateBefore};
use podnudge_config::{self as config, Overrides, ProofBy, Rule};
use podnudge_core::event::Proof;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

use crate::support::http::wait;
use crate::support::pod::no_other_process;
use crate::support::{
    Application, OTHER_USER, Scene, answering, command, in_namespace, request, server, wait_until,
};

const DIGEST: Digest = Digest([7; 32]);

/// Parses a rule with this `[rule.verify]`.
fn rule(verify: &str) -> Rule {
    let file = format!(
        "[[rule]]\nname = \"web\"\nwatch = \"/a\"\nsignal = {{ name = \"HUP\" }}\n[rule.verify]\n{verify}\n"
    );
    let (config, warnings) =
        config::parse("a.toml", &file, &Overrides::default(), None).expect("it is a configuration");
    assert_eq!(warnings, []);
    config.rules.into_iter().next().unwrap()
}

/// The result of one verification, after the values before the action were recorded.
fn verdict(verify: &str) -> Proof {
    let rule = rule(verify);
    wait(async {
        let before =
            proofs::state_before(&rule, DIGEST, &[]).await.expect("what was before is known");
        proofs::check_proofs(&rule, Some(&before), &[]).await
    })
}

/// Why the action has to wait.
fn unknown_before(verify: &str) -> Reason {
    wait(proofs::state_before(&rule(verify), DIGEST, &[]))
        .expect_err("what was before is not known")
}

/// The reason of a pending proof, without the URL.
fn pending(proof: Proof) -> String {
    match proof {
        Proof::Pending(reason) => {
            let after_url = reason.message.split_once("/-/reload: ").map(|(_, after)| after);
            after_url.unwrap_or(&reason.message).to_owned()
        }
        other => panic!("not pending: {other:?}"),
    }
}

/// A server that answers with these bodies in turn, and with the last one from then on.
fn saying(bodies: &[&str]) -> String {
    let leak = |body: &&str| ("200 OK", "", &*body.to_string().leak());
    answering(bodies.iter().map(leak).collect::<Vec<_>>().leak()).0
}

/// The result for these bodies.
fn of_bodies(bodies: &[&str], proof: &str) -> Proof {
    verdict(&format!("http = \"{}\"\n{proof}", saying(bodies)))
}

#[test]
fn a_number_must_have_grown_and_a_body_must_match() {
    let metric = "metric-grew = \"last_reload_seconds\"";
    let (old, new) = ("last_reload_seconds 1.7e9\n", "last_reload_seconds 1.8e9\n");
    assert_eq!(of_bodies(&[old, new], metric), Proof::Given);
    assert_eq!(
        pending(of_bodies(&[old], metric)),
        "the sample `last_reload_seconds` has not grown: it was 1700000000 and is 1700000000"
    );
    let json = "json-grew = \"/hot_reload_count\"";
    let (old, new) = ("{\"hot_reload_count\": 1}", "{\"hot_reload_count\": \"2\"}");
    assert_eq!(of_bodies(&[old, new], json), Proof::Given);
    assert_eq!(
        pending(of_bodies(&[new, old], json)),
        "the number at `/hot_reload_count` has not grown: it was 2 and is 1"
    );
    assert_eq!(
        pending(of_bodies(&[old, "{\"hot_reload_count\": [1]}"], json)),
        "the value at `/hot_reload_count` is a list, which is not a number"
    );

    let regex = "body-matches = \"^version 2\"";
    assert_eq!(of_bodies(&["version 2\n"], regex), Proof::Given);
    assert_eq!(pending(of_bodies(&["version 1"], regex)), "the body does not match `^version 2`");
    let (url, _) = answering(&[("500 Internal Server Error", "", "version 2")]);
    assert!(
        pending(verdict(&format!("http = \"{url}\"\n{regex}"))).contains("answered 500 Internal")
    );
}

#[test]
fn json_equals_requires_the_exact_value() {
    let status = "{\"status\": {\"ok\": true, \"code\": 2.0, \"name\": \"v2\", \"parts\": [1]}}";
    for (pointer, value, refusal) in [
        ("/status/ok", "true", ""),
        ("/status/ok", "false", "the value at `/status/ok` is true, not false"),
        ("/status/ok", "\"true\"", "the value at `/status/ok` is true, not \"true\""),
        ("/status/code", "2", ""),
        ("/status/code", "3", "the value at `/status/code` is 2.0, not 3"),
        ("/status/name", "\"v2\"", ""),
        ("/status/name", "\"v\"", "the value at `/status/name` is \"v2\", not \"v\""),
        ("/status/parts", "1", "the value at `/status/parts` is a list, not 1"),
        ("/status/parts/0", "1", ""),
        ("/status/none", "1", "there is no value at `/status/none`"),
    ] {
        let proof = format!("json-equals = {{ pointer = \"{pointer}\", value = {value} }}");
        let seen = of_bodies(&[status], &proof);
        if refusal.is_empty() {
            assert_eq!(seen, Proof::Given, "{proof}");
        } else {
            assert_eq!(pending(seen), refusal);
        }
    }
    let proof = "json-equals = { pointer = \"/a\", value = 1 }";
    assert_eq!(pending(of_bodies(&["{\"a\": 1"], proof)), "the body is not JSON");
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(100_000));
    assert!(pending(of_bodies(&[&long], proof)).len() < 300);
}

#[test]
fn json_contains_requires_a_list_element_or_a_substring() {
    let status = "{\"features\": [\"x\", 3, false], \"version\": \"app 2.1-x\", \"n\": 33}";
    for (pointer, value, refusal) in [
        ("/features", "\"x\"", ""),
        ("/features", "3", ""),
        ("/features", "false", ""),
        ("/features", "\"3\"", "the list at `/features` has no \"3\""),
        ("/features", "true", "the list at `/features` has no true"),
        ("/version", "\"2.1\"", ""),
        ("/version", "\"2.2\"", "the text at `/version` has no \"2.2\""),
        ("/version", "2", "the value at `/version` is \"app 2.1-x\", which cannot contain 2"),
        ("/n", "3", "the value at `/n` is 33, which cannot contain 3"),
    ] {
        let proof = format!("json-contains = {{ pointer = \"{pointer}\", value = {value} }}");
        let seen = of_bodies(&[status], &proof);
        if refusal.is_empty() {
            assert_eq!(seen, Proof::Given, "{proof}");
        } else {
            assert_eq!(pending(seen), refusal);
        }
    }
}

#[test]
fn json_changed_requires_a_change_since_before_the_action() {
    let proof = "json-changed = \"/config/hash\"";
    let hash = |value: &str| format!("{{\"config\": {{\"hash\": {value}}}, \"uptime\": 9}}");
    let (old, new, list) = (hash("\"abc\""), hash("\"abd\""), hash("[1, 2]"));
    assert_eq!(of_bodies(&[&old, &new], proof), Proof::Given);
    assert_eq!(of_bodies(&[&list, &hash("[2, 1]")], proof), Proof::Given);
    assert_eq!(
        pending(of_bodies(&[&old], proof)),
        "the value at `/config/hash` has not changed: it is \"abc\""
    );
    assert_eq!(
        pending(of_bodies(&[&list], proof)),
        "the value at `/config/hash` has not changed: it is a list"
    );
    assert_eq!(pending(of_bodies(&[&old, "{}"], proof)), "there is no value at `/config/hash`");
    let reason = unknown_before(&format!("http = \"{}\"\n{proof}", saying(&["{}", &new])));
    assert!(reason.message.ends_with("there is no value at `/config/hash`"), "{reason}");
}

#[test]
fn all_conditions_on_a_body_must_hold() {
    // As in Prometheus: the reload may have failed, or may not have happened yet.
    let page =
        |successful: u8, at: u8| format!("reload_successful {successful}\nreloaded_at {at}\n");
    let proof = "metric-grew = \"reloaded_at\"\n\
                 metric-equals = { name = \"reload_successful\", value = 1 }";
    let of_pages = |before: (u8, u8), after: (u8, u8)| {
        of_bodies(&[&page(before.0, before.1), &page(after.0, after.1)], proof)
    };
    assert_eq!(of_pages((1, 5), (1, 6)), Proof::Given);
    assert_eq!(of_pages((0, 5), (1, 6)), Proof::Given);
    assert_eq!(
        pending(of_pages((1, 5), (1, 5))),
        "the sample `reloaded_at` has not grown: it was 5 and is 5"
    );
    assert_eq!(pending(of_pages((1, 5), (0, 6))), "the sample `reload_successful` is 0, not 1");

    let several = "json-changed = [\"/a\", \"/b\"]\njson-grew = \"/n\"\nbody-matches = \"n\"\n\
                   json-equals = [{ pointer = \"/c\", value = 1 }, { pointer = \"/d\", value = 2 }]";
    let before = "{\"a\": 1, \"b\": 1, \"n\": 1}";
    let after = |b: u8, d: u8| format!("{{\"a\": 2, \"b\": {b}, \"n\": 2, \"c\": 1, \"d\": {d}}}");
    assert_eq!(of_bodies(&[before, &after(2, 2)], several), Proof::Given);
    assert_eq!(
        pending(of_bodies(&[before, &after(1, 2)], several)),
        "the value at `/b` has not changed: it is 1"
    );
    assert_eq!(
        pending(of_bodies(&[before, &after(2, 3)], several)),
        "the value at `/d` is 3, not 2"
    );
}

#[test]
fn a_truncated_number_is_not_used() {
    // The limit of 1 MiB falls after the first digit before the action, and after the second digit
    // after it.
    let page = |digits: usize| {
        let filling = 1024 * 1024 - digits - "reloads ".len() - 1;
        format!("{}\nreloads 17", "#".repeat(filling))
    };
    let url = saying(&[&page(1), &page(2)]);
    let verify = format!("http = \"{url}\"\nmetric-grew = \"reloads\"");
    let reason = unknown_before(&verify);
    assert!(reason.message.ends_with("no sample `reloads` in its first 1024 KiB"), "{reason}");
    assert!(pending(verdict(&verify)).ends_with("it was 17 and is 17"));

    let url = server(|mut stream| {
        request(&stream);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nreloads 1"));
    });
    let reason = unknown_before(&format!("http = \"{url}\"\nmetric-grew = \"reloads\""));
    assert!(reason.message.contains("in the answer, which broke off"), "{reason}");
}

#[test]
fn without_a_value_before_the_action_there_is_no_action() {
    let url = saying(&["another 1\n"]);
    let reason = unknown_before(&format!("http = \"{url}\"\nmetric-grew = \"wanted\""));
    assert!(reason.message.contains("there is no sample `wanted`"), "{reason}");
}

/// How a server on a socket handles a command.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// Answers and closes the connection.
    Answers(&'static str),
    /// Answers and keeps the connection.
    Keeps(&'static str),
    /// Never answers.
    Hangs,
    /// Closes without an answer.
    Closes,
    /// Answers 100 KiB, and then this.
    Floods(&'static str),
}

impl Server {
    /// Serves one connection, and returns the command.
    fn serve(self, stream: &mut (impl std::io::Read + std::io::Write)) -> String {
        let mut command = String::new();
        BufReader::new(&mut *stream).read_line(&mut command).unwrap();
        let mut say = |text: &str| drop(stream.write_all(text.as_bytes()));
        match self {
            Self::Answers(text) | Self::Keeps(text) => say(text),
            Self::Floods(text) => {
                say(&"x".repeat(100 * 1024));
                say(text);
            }
            Self::Hangs | Self::Closes => {}
        }
        if matches!(self, Self::Keeps(_) | Self::Hangs) {
            // Ends when the client disconnects.
            drop(stream.read_to_end(&mut Vec::new()));
        }
        command
    }
}

/// A server on a socket file and one on a port, and the commands that they received.
fn socket_servers(folder: &Path, server: Server) -> ([String; 2], Arc<Mutex<Vec<String>>>) {
    let commands = Arc::new(Mutex::new(Vec::new()));
    let path = folder.join("app.sock");
    drop(fs::remove_file(&path));
    let unix = UnixListener::bind(&path).unwrap();
    let kept = Arc::clone(&commands);
    thread::spawn(move || {
        for stream in unix.incoming() {
            kept.lock().unwrap().push(server.serve(&mut stream.unwrap()));
        }
    });
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", tcp.local_addr().unwrap());
    let kept = Arc::clone(&commands);
    thread::spawn(move || {
        for stream in tcp.incoming() {
            kept.lock().unwrap().push(server.serve(&mut stream.unwrap()));
        }
    });
    ([path.to_str().unwrap().to_owned(), address], commands)
}

fn of_socket(address: &str, limit: &str) -> Proof {
    verdict(&format!(
        "socket = \"{address}\"\nsend = \"show proc\\n\"\nanswer-matches = '(?m)^worker [0-9]+$'\n\
         attempt-timeout = \"{limit}\""
    ))
}

#[test]
fn a_socket_proof_requires_a_matching_answer() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [
        (Server::Answers("master 1\nworker 2\n"), "10s", None),
        (
            Server::Answers("reload\tfailed\n"),
            "10s",
            Some("the answer does not match `(?m)^worker [0-9]+$`: reload failed"),
        ),
        (Server::Closes, "10s", Some("sent an empty answer")),
        (Server::Keeps("worker 2\n"), "2s", None),
        (Server::Keeps("none\n"), "2s", Some("the answer, which did not end within 2s, does not")),
        (Server::Hangs, "100ms", Some("did not answer within 100ms")),
        (Server::Floods("\nworker 2\n"), "10s", Some("the first 64 KiB of the answer do not")),
    ];
    for (server, limit, refusal) in servers {
        let (addresses, commands) = socket_servers(folder.path(), server);
        for address in addresses {
            match (of_socket(&address, limit), refusal) {
                (seen, None) => assert_eq!(seen, Proof::Given, "{server:?} at {address}"),
                (seen, Some(refusal)) => {
                    let reason = pending(seen);
                    assert!(reason.starts_with(&format!("`{address}`")), "{reason}");
                    assert!(reason.contains(refusal), "{reason}");
                    assert!(reason.len() < 400, "{reason}");
                }
            }
        }
        wait_until("both servers are done", || commands.lock().unwrap().len() == 2);
        assert_eq!(*commands.lock().unwrap(), ["show proc\n", "show proc\n"]);
    }
}

#[test]
fn a_socket_that_cannot_be_reached_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let explain = |address: &str| match of_socket(address, "10s") {
        Proof::Pending(reason) => format!("{}; {}", reason.message, reason.hint.unwrap()),
        other => panic!("{other:?}"),
    };
    let missing = explain(folder.path().join("none.sock").to_str().unwrap());
    assert!(missing.starts_with("cannot connect to `") && missing.contains("No such file"));
    assert!(missing.contains("must be in a volume that both containers mount"), "{missing}");
    let left_over = folder.path().join("old.sock");
    drop(UnixListener::bind(&left_over).unwrap());
    let left_over = explain(left_over.to_str().unwrap());
    assert!(left_over.contains("the socket left over from an earlier run"), "{left_over}");
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = explain(&format!("tcp://{unused}"));
    assert!(refused.contains("check the port"), "{refused}");

    let (addresses, _) = socket_servers(folder.path(), Server::Hangs);
    let [path, _] = &addresses;
    let verify = format!("socket = \"{path}\"\nsend = \"show\"\nanswer-matches = \"ok\"\n");
    let Proof::Pending(reason) = verdict(&(verify + "attempt-timeout = \"50ms\"")) else {
        panic!("there was no answer")
    };
    assert!(reason.hint.unwrap().contains("no line feed at its end"));
}

/// podnudge runs as another user than the owner of the socket.
#[test]
fn a_socket_of_another_user_is_reported_with_the_uid() {
    let scene = Scene::new();
    let socket = scene.path("root.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(command("chmod").arg("0700").arg(&socket).status().unwrap().success());
    let verify = "socket = \"FOLDER/root.sock\"\nsend = \"a\\n\"\nanswer-matches = \"a\"\ntimeout = \"50ms\"\n";
    let config = config(&scene.application(), verify);
    let agent = scene.configured_by(scene.podnudge_by(&OTHER_USER), &config);
    agent.wait_for("gave-up", 1);
    let explanation = agent.last("gave-up", "reason") + &agent.last("gave-up", "hint");
    assert!(
        explanation.contains("ermission denied") && explanation.contains("runs as uid 65532"),
        "{explanation}"
    );
}

/// A proof by a shell script.
fn script(scene: &Scene, text: &str) -> String {
    let script = scene.write("prove", &format!("cd FOLDER\n{text}\n"));
    format!("exec = [\"sh\", \"{script}\"]\n")
}

/// A configuration that acts once at start, and gives up after one attempt.
fn config(application: &Application, verify: &str) -> String {
    format!(
        "[[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"always\"\n\
         retry.attempts = 1\nhttp.url = \"{}\"\n[rule.verify]\n{verify}",
        application.url(),
    )
}

#[test]
fn a_proof_program_is_repeated_until_it_exits_with_0() {
    let scene = Scene::new();
    let exec = script(
        &scene,
        "mkdir running || echo two at a time >> overlaps\n\
         echo \"$PODNUDGE_RULE $PODNUDGE_DIGEST\" >> looks\n\
         echo \"look $(wc -l < looks)\"; rmdir running; test \"$(wc -l < looks)\" -ge 3",
    );
    let application = scene.application();
    let agent = scene.configured(&config(&application, &exec));
    agent.wait_for("applied", 1);
    let looks = scene.text("looks");
    let looks: Vec<&str> = looks.lines().collect();
    assert_eq!(looks.len(), 3, "{looks:?}");
    let digest = agent.last("applied", "digest");
    assert!(looks.iter().all(|look| look.starts_with(&format!("web {digest}"))), "{looks:?}");
    assert_eq!((scene.text("overlaps").as_str(), application.reloads().len()), ("", 1));
}

#[test]
fn a_proof_program_that_never_succeeds_fails_with_its_output() {
    let scene = Scene::new();
    let exec = script(&scene, "echo look >> looks; echo \"still the old one\" >&2; exit 3");
    let verify = exec + "timeout = \"500ms\"\n";
    let agent = scene.configured(&config(&scene.application(), &verify));
    agent.wait_for("gave-up", 1);
    let reason = agent.last("gave-up", "reason");
    assert!(reason.starts_with("`sh /"), "{reason}");
    assert!(reason.ends_with("/prove` ended with 3: still the old one"), "{reason}");
    assert!(scene.text("looks").lines().count() >= 2);
    assert_eq!(agent.count("applied"), 0);
}

#[test]
fn a_proof_program_is_limited_in_output_and_time_and_leaves_no_process() {
    in_namespace!();
    let loud = verdict("exec = [\"sh\", \"-c\", \"yes | head -c 9000000; echo last; exit 1\"]");
    let reason = pending(loud);
    assert!(reason.ends_with("y\nlast") && reason.len() < 5000, "{} bytes", reason.len());
    let hangs = "exec = [\"sh\", \"-c\", \"echo begun; sleep 1000 & sleep 1000\"]\n\
                 attempt-timeout = \"300ms\"";
    let reason = pending(verdict(hangs));
    assert!(reason.ends_with("did not end within 300ms: begun"), "{reason}");
    let missing = pending(verdict("exec = \"/nowhere/prove\""));
    assert!(missing.starts_with("cannot run `/nowhere/prove`"), "{missing}");
    no_other_process();
}

/// The page was not there before a signal that could not wait for it, and the process is the same.
#[test]
fn a_value_that_nobody_has_seen_before_the_action_is_no_evidence() {
    let page = saying(&[r#"{"generation": 3}"#]);
    let look = |rule: &Rule, before| wait(proofs::check_proofs(rule, Some(&before), &[]));
    let changed = rule(&format!("http = \"{page}\"\njson-changed = \"/generation\"\n"));
    let equals = rule(&format!(
        "http = \"{page}\"\njson-equals = {{ pointer = \"/generation\", value = 3 }}\n"
    ));
    for (rule, given) in [(&changed, Proof::NotConfigured), (&equals, Proof::Given)] {
        assert_eq!(look(rule, StateBefore::unknown(rule, DIGEST)), given);
        assert_eq!(look(rule, StateBefore::for_new_process(rule, DIGEST)), Proof::Given);
    }
}

#[test]
fn all_proofs_must_hold_and_the_first_pending_one_is_reported() {
    let scene = Scene::new();
    let url = saying(&["no", "no", "yes"]);
    let ([socket, _], commands) = socket_servers(scene.folder.path(), Server::Answers("worker 2"));
    let exec = script(&scene, "echo look >> looks; test -e agreed");
    let verify = format!(
        "{exec}socket = \"{socket}\"\nsend = \"show proc\\n\"\nanswer-matches = \"worker\"\n\
         http = \"{url}\"\nbody-matches = \"yes\"\n"
    );
    // This order is fixed, regardless of the order in the file.
    let rule = rule(&verify);
    assert!(matches!(
        rule.verify.proofs.as_slice(),
        [ProofBy::Http(_), ProofBy::Socket(_), ProofBy::Exec(_)]
    ));
    let look = || {
        wait(async {
            let before = proofs::state_before(&rule, DIGEST, &[]).await.unwrap();
            proofs::check_proofs(&rule, Some(&before), &[]).await
        })
    };
    for _ in 0..2 {
        assert_eq!(pending(look()), "the body does not match `yes`");
        assert_eq!((scene.text("looks").as_str(), commands.lock().unwrap().len()), ("", 0));
    }
    assert!(pending(look()).ends_with("prove` ended with 1"));
    scene.write("agreed", "");
    assert_eq!(look(), Proof::Given);
    assert_eq!((scene.text("looks").as_str(), commands.lock().unwrap().len()), ("look\nlook\n", 2));
    assert!(matches!(wait(proofs::check_proofs(&rule, None, &[])), Proof::Pending(_)));
}
