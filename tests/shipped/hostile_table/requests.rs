//! Requests to podnudge's own port, and what a neighbour with the same uid can do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use nix::sys::signal::Signal;

use super::{Input, Scene};
use crate::support::command;

type Put = fn(&mut Scene);

fn connect(scene: &Scene) -> TcpStream {
    TcpStream::connect(&scene.address).unwrap()
}

/// Sends bytes until podnudge ends the connection, at most 64 MiB, and reads the answer.
fn send(scene: &Scene, begin: &str, part: &[u8], times: usize) {
    let mut stream = connect(scene);
    let is_open = stream.write_all(begin.as_bytes()).is_ok();
    let mut times = 0..times;
    while is_open && times.next().is_some() && stream.write_all(part).is_ok() {}
    drop(stream.shutdown(std::net::Shutdown::Write));
    drop(stream.read_to_end(&mut Vec::new()));
}

const MANY: usize = 4096;

fn all() -> Vec<(&'static str, &'static str, Put)> {
    vec![
        ("port", "no request", |scene| drop(connect(scene))),
        ("port", "a request that never ends", |scene| {
            for _ in 0..50 {
                let mut stream = connect(scene);
                stream.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
                std::mem::forget(stream);
            }
        }),
        ("port", "an endless header", |scene| {
            send(scene, "GET / HTTP/1.1\r\nx: ", &[b'x'; 16384], MANY);
        }),
        ("port", "endless headers", |scene| {
            send(scene, "GET / HTTP/1.1\r\n", &b"x: y\r\n".repeat(2000), MANY);
        }),
        ("port", "an endless path", |scene| send(scene, "GET /", &[b'x'; 16384], MANY)),
        ("port", "an endless method", |scene| send(scene, "", &[b'X'; 16384], MANY)),
        ("port", "no HTTP", |scene| send(scene, "", &[0; 16384], MANY)),
        ("port", "an endless body", |scene| {
            send(
                scene,
                "POST /reload HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n",
                &[b'x'; 16384],
                MANY,
            );
        }),
        ("port", "endless chunks", |scene| {
            let begin = "POST /reload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
            send(scene, begin, &b"8\r\nxxxxxxxx\r\n".repeat(1000), MANY);
        }),
        ("port", "many requests at once", |scene| {
            send(scene, "", &b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500), 4);
        }),
        ("port", "many invalid methods", |scene| {
            (0..200).for_each(|_| send(scene, "BREW / HTTP/1.1\r\nhost: x\r\n\r\n", b"", 1));
        }),
        ("port", "many connections", |scene| {
            let all: Vec<TcpStream> = (0..600).map(|_| connect(scene)).collect();
            drop(all);
        }),
        ("port", "3000 connections that are held open", |scene| {
            let script = "import socket, sys\nhost, port = sys.argv[1].rsplit(':', 1)\n\
                 held = [socket.create_connection((host, port)) for _ in range(3000)]\n\
                 for one in held:\n  try: one.send(b'GET /status HTTP/1.1\\r\\n')\n  except OSError: pass\n\
                 print('held', flush=True)\nsys.stdin.read()\n";
            let mut holder = command("prlimit");
            holder.args(["--nofile=4096:4096", "python3", "-c", script, &scene.address]);
            let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut holder = holder.spawn().unwrap();
            holder.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
            scene.held = Some(holder);
        }),
        ("neighbour", "2000 HUP", |scene| {
            (0..2000).for_each(|_| scene.agent.signal(Signal::SIGHUP));
        }),
        ("neighbour", "2000 USR1", |scene| {
            (0..2000).for_each(|_| scene.agent.signal(Signal::SIGUSR1));
        }),
        ("neighbour", "names in the work directory", |scene| {
            for name in [
                "podnudge-check-text",
                "..podnudge-checks.text.json",
                "..podnudge-checks.text.json.new",
            ] {
                drop(symlink("/etc/passwd", scene.path("work").join(name)));
            }
            scene.nudge("text");
        }),
        ("neighbour", "a directory in the place of a record", |scene| {
            let place = scene.path("work").join("..podnudge-checks.json.json");
            drop(fs::create_dir_all(place.join("x")));
            scene.nudge("json");
        }),
    ]
}

pub(super) fn inputs() -> Vec<Input> {
    let input = |(rule, what, put): (&'static str, &'static str, Put)| Input {
        rule,
        what: what.to_owned(),
        put: Box::new(put),
        outcome: "",
        // What is held ends with the input.
        remove: Some(Box::new(|scene| {
            if let Some(mut held) = scene.held.take() {
                drop(held.kill());
                drop(held.wait());
            }
        })),
    };
    all().into_iter().map(input).collect()
}
