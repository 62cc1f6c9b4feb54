//! One replica: a volume, the application below `podnudge supervise`, and podnudge beside it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::api_server::ApiServer;
use super::kubelet::{Kubelet, payload};

/// What keeps the replicas from being restarted at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    SlotAndDrain,
    Jitter,
}

pub(crate) struct Replica {
    pub(crate) name: String,
    /// The address of the application.
    pub(crate) address: SocketAddr,
    /// The address of podnudge.
    pub(crate) serving: String,
    kubelet: Kubelet,
    processes: [Child; 2],
}

impl Replica {
    pub(crate) fn start(
        podnudge: &Path,
        folder: &Path,
        number: usize,
        api: &ApiServer,
        protection: Protection,
    ) -> Self {
        let name = format!("web-{number}");
        let folder = folder.join(&name);
        let mut kubelet = Kubelet::new(folder.join("volume"));
        kubelet.write(&payload(&[("version", "1")]));
        fs::write(folder.join("token"), "token").unwrap();
        let (address, admin) = (own_address(number), free_port(Ipv4Addr::LOCALHOST));
        let version = kubelet.volume.join("version");
        let own = std::env::current_exe().unwrap();
        let application = Command::new(podnudge)
            .args(["supervise", "--"])
            .arg(&own)
            .args(["application", &address.to_string()])
            .arg(&version)
            .stdout(Stdio::null())
            // It says what it restarts; the replica's podnudge says the same in its log.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let config = folder.join("podnudge.toml");
        fs::write(&config, configuration(&folder, address, admin, api, protection)).unwrap();
        let agent = Command::new(podnudge)
            .arg("--config")
            .arg(&config)
            .envs([("PODNUDGE_POD_NAME", &name), ("PODNUDGE_POD_UID", &name)])
            .stderr(File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let serving = format!("127.0.0.1:{admin}");
        Self { name, address, serving, kubelet, processes: [application, agent] }
    }

    /// Changes the volume as the kubelet does.
    pub(crate) fn swap(&mut self, version: &str) {
        self.kubelet.write(&payload(&[("version", version)]));
    }

    /// The version that the application serves.
    pub(crate) fn version(&self) -> Option<String> {
        get(&self.address.to_string(), "/")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // TERM: the supervisor ends its application, too.
        for process in &mut self.processes {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(process.id()).unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        }
        for process in &mut self.processes {
            drop(process.wait());
        }
    }
}

fn configuration(
    folder: &Path,
    address: SocketAddr,
    admin: u16,
    api: &ApiServer,
    protection: Protection,
) -> String {
    let path = folder.display();
    let protection = match protection {
        Protection::Jitter => "jitter = \"2s\"\n".to_owned(),
        Protection::SlotAndDrain => "drain = { wait = \"400ms\" }\n\
                                     limit = { lease = \"fleet\", max-concurrent = 1 }\n"
            .to_owned(),
    };
    format!(
        "[agent]\nlisten = \"127.0.0.1:{admin}\"\nwork-dir = \"{path}\"\n\
         [cluster]\nurl = \"{}\"\ntoken-file = \"{path}/token\"\nnamespace = \"fleet\"\n\
         [[rule]]\nwatch = \"{path}/volume\"\non-start = \"never\"\nmin-interval = \"0s\"\n{protection}\
         restart = {{ grace = \"5s\", most = 100 }}\n\
         target = {{ cmdline = \"application {address} \" }}\n\
         verify = {{ http = \"http://{address}/\", alive-for = \"100ms\" }}\n",
        api.url()
    )
}

/// Each replica has its own IP address, as pods do. The clients have another one: else one of their connections could get
/// the port while the application is restarted.
fn own_address(number: usize) -> SocketAddr {
    let ip = Ipv4Addr::new(127, 0, 1, u8::try_from(number + 1).expect("at most 255 replicas"));
    SocketAddr::from((ip, free_port(ip)))
}

/// A port that nothing uses.
fn free_port(ip: Ipv4Addr) -> u16 {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port()
}

/// The body of a successful answer.
pub(crate) fn get(address: &str, path: &str) -> Option<String> {
    let limit = Some(Duration::from_secs(5));
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(limit).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
