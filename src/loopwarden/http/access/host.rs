//! Names that a request calls its host by, read strictly: what is no name of this host is that of somebody else.

use std::net::IpAddr;

/// Whether a host with or without a port is this one: `localhost:9464`, `127.0.0.1`, `[::1]:9464`.
pub(crate) fn is_loopback(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((name, rest)) if name.contains(':') => (name, rest),
            _ => return false,
        },
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if !(rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_this_host_to_its_last_letter() {
        for host in ["localhost", "LocalHost:9464", "127.0.0.1:9464", "[::1]:9464", "[::1]", "127.9.9.9", "localhost:0"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            ":",
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "localhost:x@evil",
            "localhost:80@evil",
            "localhost:",
            "localhost:99999",
            "localhost:+1",
            "localhost:1:1",
            "localhost evil",
            "[::1]evil",
            "[::1]:",
            "[::1",
            "[localhost]",
            "[127.0.0.1]",
            "::1",
            "127.0.0.1.",
            "127.1",
            "user@localhost",
            "localhost/",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
