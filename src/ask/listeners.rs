//! Who listens at an address of this host, by the kernel's table of listeners (Linux).

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::{fs, io};

use crate::table::Row;

/// A row of the kernel's table is read at a time. Bytes. Behind the listeners it looks through all connections that there could be, which takes
/// milliseconds: nobody asks for these.
const ROW_BYTES: usize = 150;
/// Listeners that are looked at.
const LISTENERS_MAX: usize = 10_000;
/// The kernel's tables.
const IPV4: &str = "/proc/self/net/tcp";
const IPV6: &str = "/proc/self/net/tcp6";
/// State of a socket that listens, in the kernel's tables.
const LISTEN: u8 = 10;

/// The user who listens where connections to an address go. What listens at the address itself or at all of IPv4 leaves no place for
/// another user, and comes before those who listen at all of IPv6: one of these alone must not be able to silence the guard.
pub(crate) fn listener_at(server: SocketAddr) -> io::Result<Option<u32>> {
    let tables: &[&str] = if server.ip().to_canonical().is_ipv4() { &[IPV4, IPV6] } else { &[IPV6] };
    for path in tables {
        let table = match fs::File::open(path) {
            // A machine without IPv6.
            Err(_) if *path == IPV6 => break,
            table => BufReader::with_capacity(ROW_BYTES, table?),
        };
        // The first line has names.
        for line in table.lines().skip(1).take(LISTENERS_MAX) {
            match listener(&line?) {
                Some((local, uid)) if takes(local, server) => return Ok(Some(uid)),
                Some(_) => {}
                None => break,
            }
        }
    }
    Ok(None)
}

/// Whether a listener takes connections to an address.
fn takes(local: SocketAddr, server: SocketAddr) -> bool {
    let server_ip = server.ip().to_canonical();
    local.port() == server.port()
        && match local.ip() {
            ip if ip.to_canonical() == server_ip => true,
            IpAddr::V4(ip) => ip.is_unspecified() && server_ip.is_ipv4(),
            IpAddr::V6(ip) => ip.is_unspecified(),
        }
}

/// Address and user of a line of the table. Absent where nobody listens: all listeners stand in front.
fn listener(line: &str) -> Option<(SocketAddr, u32)> {
    Row::read(line).filter(|row| row.state == LISTEN).map(|row| (row.local, row.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row as the kernel writes it on a little-endian machine.
    fn row(local: &str, state: &str, uid: u32) -> Option<(SocketAddr, u32)> {
        listener(&format!("   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:>5}        0 77 1 0"))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_tables_of_the_kernel_are_read() {
        assert_eq!(row("0100007F:24F8", "0A", 1000), Some(("127.0.0.1:9464".parse().unwrap(), 1000)));
        let six = row("00000000000000000000000001000000:24F8", "0A", 5);
        assert_eq!(six, Some(("[::1]:9464".parse().unwrap(), 5)));
        assert_eq!(row("0100007F:24F8", "01", 0), None);
        for other in ["", "  sl  local_address rem_address   st tx_queue", "0: x y 0A a b c 1", "0: 01:01 01:01 0A a b c 1"] {
            assert_eq!(listener(other), None, "{other}");
        }
    }

    #[test]
    fn a_listener_takes_what_is_for_its_address_or_for_all() {
        for (local, server, is_taken) in [
            ("127.0.0.1:9464", "127.0.0.1:9464", true),
            ("[::ffff:127.0.0.1]:9464", "127.0.0.1:9464", true),
            ("0.0.0.0:9464", "127.0.0.1:9464", true),
            ("[::]:9464", "127.0.0.1:9464", true),
            ("[::]:9464", "[::1]:9464", true),
            ("127.0.0.1:9465", "127.0.0.1:9464", false),
            ("127.0.0.2:9464", "127.0.0.1:9464", false),
            ("[::1]:9464", "127.0.0.1:9464", false),
            ("0.0.0.0:9464", "[::1]:9464", false),
        ] {
            assert_eq!(takes(local.parse().unwrap(), server.parse().unwrap()), is_taken, "{local} {server}");
        }
    }
}
