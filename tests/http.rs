//! Requests to well-behaved and to misbehaving servers, all on loopback.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use podnudge::action::http;
use podnudge::exchange::AnswerEnd;
use podnudge::exchange::http::exchange;
use podnudge_config::{Auth, Basic, Body, Endpoint, HttpAction};
use podnudge_core::event::{Absence, Acted};
use podnudge_core::reason::Reason;
use reqwest::Method;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::http::wait;
use crate::support::{
    answering, command, in_network, podnudge, request, requests, respond, server, wait_until,
};

pub(crate) fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        url: url.parse().unwrap(),
        unix_socket: None,
        headers: Vec::new(),
        auth: None,
        tls: None,
        timeout: Duration::from_secs(5),
    }
}

fn action(endpoint: Endpoint) -> HttpAction {
    HttpAction {
        endpoint,
        method: Method::POST,
        body: Body::Empty,
        reject: None,
        expect: Vec::new(),
    }
}

fn send(action: &HttpAction) -> Acted {
    let body = match &action.body {
        Body::Text(text) => Some(text.clone().into_bytes()),
        _ => None,
    };
    wait(http::send(action, body))
}

fn failure(acted: Acted) -> Reason {
    match acted {
        Acted::Failed(reason) => reason,
        other => panic!("not failed: {other:?}"),
    }
}

/// The first address of a name answers nothing, not even that nobody listens.
#[test]
fn the_next_address_of_a_name_is_tried_in_time() {
    in_network!();
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.2 app.example\n127.0.0.1 app.example\n").unwrap();
    let mut mount = command("mount");
    assert!(mount.arg("--bind").arg(&hosts).arg("/etc/hosts").status().unwrap().success());
    let application = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = application.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in requests(&application) {
            request(&stream);
            respond(&stream, "200 OK", "", "");
        }
    });
    // A queue for one connection, which is full: the kernel drops what else arrives.
    let (_listener, _waiting) = wait(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("127.0.0.1:{port}").parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let waiting = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
        (listener, waiting)
    });
    let mut reload = action(endpoint(&format!("http://app.example:{port}/")));
    reload.endpoint.timeout = Duration::from_secs(8);
    let acted = send(&reload);
    assert!(matches!(acted, Acted::Accepted(_)), "{acted:?}");
}

#[test]
fn a_2xx_is_accepted_and_the_request_is_as_configured() {
    let (url, seen) = answering(&[("204 No Content", "", "")]);
    let mut put = action(endpoint(&url));
    put.method = Method::PUT;
    put.body = Body::Text("{\"a\": 1}".to_owned());
    put.endpoint.headers =
        vec![("content-type".parse().unwrap(), "application/json".parse().unwrap())];
    assert!(matches!(send(&put), Acted::Accepted(answer) if answer.contains("204")));
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("PUT /-/reload HTTP/1.1\r\n"), "{}", seen[0]);
    assert!(seen[0].contains("content-type: application/json\r\n"), "{}", seen[0]);
    assert!(seen[0].contains("user-agent: podnudge/"), "{}", seen[0]);
    assert!(seen[0].ends_with("{\"a\": 1}"), "{}", seen[0]);
}

#[test]
fn each_503_is_one_failure_and_the_next_200_is_accepted() {
    let busy = ("503 Service Unavailable", "", "still\nloading\u{1b}[31m\u{202e}!");
    let (url, seen) = answering(Box::leak(Box::new([busy, busy, busy, ("200 OK", "", "")])));
    let post = action(endpoint(&url));
    for _ in 0..3 {
        let reason = failure(send(&post));
        assert!(
            reason.message.ends_with("answered 503 Service Unavailable: still loading [31m !"),
            "{reason}"
        );
    }
    assert!(matches!(send(&post), Acted::Accepted(_)));
    assert_eq!(seen.lock().unwrap().len(), 4, "the client repeats no request by itself");
}

#[test]
fn a_redirect_is_not_followed() {
    let (target, at_target) = answering(&[("200 OK", "", "")]);
    let location: &'static str = Box::leak(format!("location: {target}\r\n").into_boxed_str());
    let (url, _) = answering(Box::leak(Box::new([("307 Temporary Redirect", location, "")])));
    let reason = failure(send(&action(endpoint(&url))));
    assert!(reason.hint.unwrap().contains("redirects are not followed"));
    assert!(at_target.lock().unwrap().is_empty());
}

#[test]
fn expected_statuses_replace_2xx() {
    let (url, _) = answering(&[("404 Not Found", "", ""), ("200 OK", "", "")]);
    let mut post = action(endpoint(&url));
    post.expect = vec![404];
    assert!(matches!(send(&post), Acted::Accepted(_)));
    assert!(matches!(send(&post), Acted::Declined(_)));
}

#[test]
fn a_hanging_server_times_out_and_a_slow_body_is_cut_off() {
    let hangs = server(std::mem::forget);
    let drips = server(|mut stream| {
        request(&stream);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"));
        // Ends when the client disconnects.
        while stream.write_all(b"x").is_ok() {
            thread::yield_now();
            thread::park_timeout(Duration::from_millis(50));
        }
    });
    let within_limit = |url: &str| {
        let mut post = action(endpoint(url));
        post.endpoint.timeout = Duration::from_millis(300);
        send(&post)
    };
    let reason = failure(within_limit(&hangs));
    assert!(reason.message.contains("got no answer within 300ms"), "{reason}");
    // The status has arrived, and it alone decides.
    assert!(matches!(within_limit(&drips), Acted::Accepted(answer) if answer.contains("200")));
}

/// What comes before an answer is bounded by its size, not only by the time limit.
#[test]
fn endless_heads_before_an_answer_end_the_request() {
    let early = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n".repeat(100);
    let header = format!("x-padding: {}\r\n", "x".repeat(4000));
    for (first, then) in [("", early.as_str()), ("HTTP/1.1 200 OK\r\n", header.as_str())] {
        let (first, then) = (first.to_owned(), then.to_owned());
        let url = server(move |mut stream| {
            request(&stream);
            drop(stream.write_all(first.as_bytes()));
            while stream.write_all(then.as_bytes()).is_ok() {}
        });
        let mut post = action(endpoint(&url));
        post.endpoint.timeout = Duration::from_secs(20);
        let reason = failure(send(&post));
        let wanted = format!("POST {url} failed: it sent more than 128 KiB before its answer");
        assert_eq!(reason.message, wanted);
        assert!(reason.hint.unwrap().contains("informational responses (1xx)"));
    }
}

#[test]
fn informational_responses_before_an_answer_are_skipped() {
    let url = server(|mut stream| {
        request(&stream);
        let early = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(10);
        drop(stream.write_all(early.as_bytes()));
        respond(stream, "200 OK", "", "");
    });
    assert!(
        matches!(send(&action(endpoint(&url))), Acted::Accepted(answer) if answer.contains("200"))
    );
}

/// The rule of an application that sends informational responses without end does not keep the
/// loop from the other rules.
#[test]
fn another_rule_is_served_during_endless_informational_responses() {
    let endless = server(|mut stream| {
        request(&stream);
        let early = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000);
        while stream.write_all(early.as_bytes()).is_ok() {}
    });
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let rule = |name: &str, url: &str| {
        let watch = folder.path().join(name);
        format!(
            "[[rule]]\nname = \"{name}\"\nwatch = {watch:?}\non-start = \"always\"\nsettle = \"0s\"\n\
             http = {{ url = \"{url}\", timeout = \"30s\" }}\n"
        )
    };
    let agent_settings = "agent = { log = \"json\", listen = \"off\" }\n";
    let config = format!("{agent_settings}{}{}", rule("a", &endless), rule("b", &url));
    let file = folder.path().join("podnudge.toml");
    fs::write(&file, config).unwrap();
    let mut command = podnudge();
    command.arg("--config").arg(&file);
    let agent = crate::support::agent::Agent::spawn(folder.path(), command);
    for attempt in 1..=2 {
        wait_until("the first rule's request ends early", || {
            let failed = agent.events("retrying");
            failed.iter().filter(|line| line["rule"] == "a").count() >= attempt
        });
    }
    agent.wait_for("applied", 1);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// What arrives together with the headers belongs to the body, however much it is.
#[test]
fn a_body_is_read_up_to_its_limit_whenever_it_arrives() {
    let body = "x".repeat(1024 * 1024);
    let sent = body.clone();
    let url = server(move |stream| {
        request(&stream);
        respond(stream, "200 OK", "", &sent);
    });
    let get = |most| wait(exchange(&endpoint(&url), Method::GET, None, most)).unwrap();
    let whole = get(body.len());
    assert_eq!((whole.body.len(), whole.end), (body.len(), AnswerEnd::Complete));
    let half = get(body.len() / 2);
    assert_eq!((half.body.len(), half.end), (body.len() / 2, AnswerEnd::Truncated));
}

#[test]
fn an_answer_counts_although_the_server_does_not_read_the_body() {
    let url = server(|stream| {
        let mut head = BufReader::new(&stream);
        while head.fill_buf().is_ok_and(|read| !read.starts_with(b"\r\n")) {
            head.consume(1);
        }
        respond(&stream, "413 Content Too Large", "", "");
        // Reads on, as servers do before they close the connection.
        drop(std::io::copy(&mut head, &mut std::io::sink()));
    });
    let mut post = action(endpoint(&url));
    post.body = Body::Text("x".repeat(8 * 1024 * 1024));
    let acted = send(&post);
    assert!(
        matches!(&acted, Acted::Declined(reason) if reason.message.contains("413")),
        "{acted:?}"
    );
}

/// The socket between the HTTP client and podnudge has no file whose mode could protect it.
#[test]
fn other_processes_that_connect_to_the_socket_of_a_request_are_not_served() {
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let script = "import socket\nprint('ready', flush=True)\nmet = set()\nwhile True:\n  \
                  for line in open('/proc/net/unix'):\n    \
                    if '@podnudge-' in line:\n      \
                      s = socket.socket(socket.AF_UNIX)\n      s.setblocking(False)\n      \
                      met.add(s)\n      s.connect_ex('\\0' + line.split('@')[1].strip())\n";
    let mut neighbour = command("python3");
    neighbour.args(["-c", script]).stdout(Stdio::piped());
    let mut neighbour = neighbour.spawn().unwrap();
    neighbour.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let post = action(endpoint(&url));
    for _ in 0..100 {
        let acted = send(&post);
        assert!(matches!(acted, Acted::Accepted(_)), "{acted:?}");
    }
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    assert_eq!(seen.lock().unwrap().len(), 100);
}

#[test]
fn the_status_counts_even_if_the_body_is_truncated() {
    for body in ["", "half", "x".repeat(5000).leak()] {
        for (status, is_accepted) in [("200 OK", true), ("503 Service Unavailable", false)] {
            let url = server(move |mut stream| {
                request(&stream);
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: 9999\r\n\r\n{body}");
                drop(stream.write_all(head.as_bytes()));
            });
            match send(&action(endpoint(&url))) {
                Acted::Accepted(answer) => assert!(is_accepted, "{answer}"),
                Acted::Failed(reason) => {
                    assert!(!is_accepted && reason.message.contains("answered 503"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_pipe_as_credential_fails_without_blocking() {
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut token = action(endpoint(&url));
    token.endpoint.auth = Some(Auth::Bearer(pipe));
    let reason = failure(send(&token));
    assert!(reason.message.contains("it is a device, pipe or socket"), "{reason}");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_connection_reset_is_a_failure_and_a_refused_connection_is_not() {
    let resets = server(|stream| {
        // Closing a socket with unread data resets the connection.
        drop(stream);
    });
    assert!(matches!(send(&action(endpoint(&resets))), Acted::Failed(_)));

    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent = send(&action(endpoint(&format!("http://{unused}/"))));
    let Acted::Absent(Absence { reason, .. }) = absent else { panic!("{absent:?}") };
    let hint = "no process listens there: the application may be starting; check the port";
    assert_eq!(reason.hint.as_deref(), Some(hint), "{reason}");

    let mut socket = action(endpoint("http://localhost/reload"));
    socket.endpoint.unix_socket = Some(PathBuf::from("/nowhere/app.sock"));
    let absent = send(&socket);
    let Acted::Absent(Absence { reason, .. }) = absent else { panic!("{absent:?}") };
    assert!(reason.hint.unwrap().contains("the directory of the socket must be in a volume"));
}

#[test]
fn a_large_response_body_is_not_read_to_its_end() {
    let sent = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&sent);
    let url = server(move |mut stream| {
        request(&stream);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10485760\r\n\r\n"));
        let piece = vec![b'x'; 64 * 1024];
        while *counted.lock().unwrap() < 10_485_760 && stream.write_all(&piece).is_ok() {
            *counted.lock().unwrap() += piece.len();
        }
    });
    assert!(matches!(send(&action(endpoint(&url))), Acted::Accepted(_)));
    assert!(*sent.lock().unwrap() < 10_485_760, "podnudge read the whole body");
}

#[test]
fn credentials_are_read_from_their_files_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let mut basic = action(endpoint(&url));
    basic.endpoint.auth =
        Some(Auth::Basic(Basic { username: "admin".to_owned(), password_file: secret.clone() }));
    let mut bearer = action(endpoint(&url));
    bearer.endpoint.auth = Some(Auth::Bearer(secret.clone()));
    for (content, action) in [("one\n", &basic), ("two", &basic), ("three\n", &bearer)] {
        fs::write(&secret, content).unwrap();
        assert!(matches!(send(action), Acted::Accepted(_)));
    }
    let wanted = ["Basic YWRtaW46b25l\r\n", "Basic YWRtaW46dHdv\r\n", "Bearer three\r\n"];
    for (text, wanted) in seen.lock().unwrap().iter().zip(wanted) {
        assert!(text.contains(&format!("authorization: {wanted}")), "{text}");
    }
    fs::remove_file(&secret).unwrap();
    let reason = failure(send(&basic));
    assert!(reason.message.starts_with("cannot read `"), "{reason}");
}

#[test]
fn a_unix_socket_is_used_instead_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let text = request(&stream);
        respond(stream, "200 OK", "", "");
        text
    });
    let mut post = action(endpoint("http://localhost/reload"));
    post.endpoint.unix_socket = Some(path);
    assert!(matches!(send(&post), Acted::Accepted(_)));
    assert!(served.join().unwrap().starts_with("POST /reload HTTP/1.1"));
}

#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let (proxy, at_proxy) = answering(&[("200 OK", "", "")]);
    let (url, at_application) = answering(&[("200 OK", "", "")]);
    // The real binary, because the environment belongs to the process.
    let folder = tempfile::tempdir().unwrap();
    let mut command = podnudge();
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"] {
        command.env(name, &proxy);
    }
    command.args(["--log", "json", "--listen", "off", "--on-start", "always", "--url", &url]);
    command.arg("--watch").arg(folder.path());
    let logs = tempfile::tempdir().unwrap();
    let agent = crate::support::agent::Agent::spawn(logs.path(), command);
    agent.wait_for("applied", 1);
    assert_eq!(at_application.lock().unwrap().len(), 1);
    assert!(at_proxy.lock().unwrap().is_empty());
}

mod tls {
    use std::path::Path;
    use std::sync::mpsc::channel;

    use podnudge_config::{ClientCertificate, Tls};
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};

    use super::{Acted, Arc, PathBuf, TcpListener, action, endpoint, failure, fs, send, thread};

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate for `name`, with its key.
    fn issue(authority: &Authority, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, authority).unwrap(), key)
    }

    /// Serves 200 over TLS as `localhost`, and returns the URL. With `clients`, the server requires
    /// a client certificate that this authority has signed.
    fn serve(authority: &Authority, clients: Option<&Authority>) -> String {
        podnudge::exchange::install_crypto();
        let (certificate, key) = issue(authority, "localhost");
        let builder = match clients {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(clients.der().to_vec())).unwrap();
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let (sender, port) = channel();
        thread::spawn(move || {
            podnudge::run::runtime().unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                sender.send(listener.local_addr().unwrap().port()).unwrap();
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let acceptor = TlsAcceptor::from(Arc::new(config));
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                    drop(stream.read(&mut [0; 4096]).await);
                    let answer =
                        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    drop(stream.write_all(answer).await);
                    drop(stream.shutdown().await);
                }
            });
        });
        format!("https://localhost:{}/-/reload", port.recv().unwrap())
    }

    fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn reload(url: &str, ca_file: PathBuf, client: Option<ClientCertificate>) -> Acted {
        let mut endpoint = endpoint(url);
        endpoint.tls = Some(Tls { ca_file, client, is_resumed: false });
        send(&action(endpoint))
    }

    #[test]
    fn only_the_configured_ca_is_trusted_and_the_host_name_must_match() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, others) = (authority(), authority());
        let url = serve(&ours, None);
        let ca = write(folder.path(), "ca.pem", &ours.pem());
        assert!(matches!(reload(&url, ca.clone(), None), Acted::Accepted(_)));
        let wrong = write(folder.path(), "wrong.pem", &others.pem());
        let reason = failure(reload(&url, wrong, None));
        assert!(reason.message.contains("invalid peer certificate"), "{reason}");
        let by_address = url.replace("localhost", "127.0.0.1");
        let reason = failure(reload(&by_address, ca, None));
        assert!(reason.message.contains("invalid peer certificate"), "{reason}");
        let empty = write(folder.path(), "empty.pem", "");
        let reason = failure(reload(&url, empty, None));
        assert!(reason.message.contains("contains no PEM certificates"), "{reason}");
    }

    #[test]
    fn a_client_certificate_is_sent_when_the_server_requests_one() {
        let folder = tempfile::tempdir().unwrap();
        let ours = authority();
        let url = serve(&ours, Some(&ours));
        let ca = write(folder.path(), "ca.pem", &ours.pem());
        assert!(matches!(reload(&url, ca.clone(), None), Acted::Failed(_)));
        let (certificate, key) = issue(&ours, "podnudge");
        let client = ClientCertificate {
            cert_file: write(folder.path(), "tls.crt", &certificate.pem()),
            key_file: write(folder.path(), "tls.key", &key.serialize_pem()),
        };
        assert!(matches!(reload(&url, ca.clone(), Some(client.clone())), Acted::Accepted(_)));
        fs::write(&client.key_file, "no key").unwrap();
        let reason = failure(reload(&url, ca, Some(client)));
        assert!(reason.message.contains("are not a PEM certificate and its key"), "{reason}");
    }
}
