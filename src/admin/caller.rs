//! Who sends a request: a process of podnudge's container or of the pod, or anybody who reaches the port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::header::HeaderValue;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A process of podnudge's own container.
    Container,
    /// A process of the pod, or a person who has forwarded the port.
    Pod,
    /// Anybody who reaches the port.
    Anybody,
}

impl Caller {
    /// Both ends must be the loopback address itself: a service mesh redirects requests from outside,
    /// and they then come from another one of 127.0.0.0/8, such as 127.0.0.6.
    pub(super) fn of(peer: SocketAddr, own: Option<SocketAddr>) -> Self {
        let is_loopback = |address: SocketAddr| match address.ip().to_canonical() {
            IpAddr::V4(address) => address == Ipv4Addr::LOCALHOST,
            IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
        };
        let is_of_pod = is_loopback(peer) && own.is_some_and(is_loopback);
        if is_of_pod { Self::Pod } else { Self::Anybody }
    }

    /// The sender, judged by the header `Host`, too. A web page can have a browser send requests to a forwarded port if the
    /// name of its site resolves to 127.0.0.1; but that name is in the request.
    pub(super) fn by_name(self, host: Option<&HeaderValue>) -> Self {
        let is_own = host.is_none_or(|host| host.to_str().is_ok_and(is_address_or_localhost));
        if is_own || self == Self::Container { self } else { Self::Anybody }
    }
}

/// Whether this, without a port, is an address or `localhost`.
fn is_address_or_localhost(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = without_port.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    address.unwrap_or(without_port).parse::<IpAddr>().is_ok()
        || without_port.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_site_is_not_that_of_the_pod() {
        for own in
            ["127.0.0.1:9533", "127.0.0.1", "[::1]:9533", "[::1]", "localhost", "LocalHost:80"]
        {
            assert_eq!(
                Caller::Pod.by_name(Some(&HeaderValue::from_static(own))),
                Caller::Pod,
                "{own}"
            );
        }
        assert_eq!(Caller::Pod.by_name(None), Caller::Pod);
        for other in [
            "evil.example",
            "evil.example:9533",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            let host = HeaderValue::from_static(other);
            assert_eq!(Caller::Pod.by_name(Some(&host)), Caller::Anybody, "{other}");
        }
    }

    #[test]
    fn a_name_makes_nobody_a_process_of_the_pod() {
        let host = HeaderValue::from_static("localhost");
        assert_eq!(Caller::Anybody.by_name(Some(&host)), Caller::Anybody);
    }
}
