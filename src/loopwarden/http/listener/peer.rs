//! Whose program is at the other end of a connection within this host: the operating system knows its user. Linux is asked about the
//! one connection; where it does not answer that, its table of all connections is read.
//!
//! A row without an inode has no program any more, and its user reads as root: it is nobody's.

use std::io::{BufRead as _, BufReader};
use std::{fs::File, net::SocketAddr};

use loopwarden_ask::table::Row;

use crate::http::listener::diag;

/// Tables of connections: of both families, since a client may write an IPv4 address in either.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// States of a connection that has been there on both sides: established, and closed on one of them.
const STATES: [u8; 4] = [1, 4, 5, 8];
/// Rows that are looked at. A table has one for each connection of the host.
const ROWS_MAX: usize = 1_000_000;

/// User of the program at the other end; none where that cannot be known.
pub(crate) fn user_of(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    if diag::is_there() {
        let end = diag::end_of(remote, local).ok()??;
        return (end.inode != 0 && STATES.contains(&end.state)).then_some(end.user);
    }
    user_in_tables(remote, local)
}

fn user_in_tables(remote: SocketAddr, local: SocketAddr) -> Option<u32> {
    TABLES.iter().find_map(|table| {
        let rows = BufReader::new(File::open(table).ok()?).lines().map_while(Result::ok);
        rows.take(ROWS_MAX).find_map(|row| user_in(&row, remote, local))
    })
}

/// The user in a row, if that is the connection as its client has it.
fn user_in(row: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let row = Row::read(row)?;
    let is_it = same(row.local, client) && same(row.remote, server) && STATES.contains(&row.state);
    (is_it && row.inode != 0).then_some(row.uid)
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
}

/// The user that this process acts as; none where that cannot be known.
pub(crate) fn own_user() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The row of a connection from 127.0.0.1:40000 to 127.0.0.1:9464.
    fn row(state: &str, inode: u64) -> String {
        let address = |port: u16| format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let (client, server) = (address(40_000), address(9_464));
        format!(
            "   7: {client} {server} {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000 20 4 30 10 -1"
        )
    }

    #[test]
    fn a_connection_whose_program_has_gone_is_nobodys() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (client, server) = (address("127.0.0.1:40000"), address("127.0.0.1:9464"));
        assert_eq!(user_in(&row("01", 5), client, server), Some(1_000));
        assert_eq!(user_in(&row("01", 5), address("[::ffff:127.0.0.1]:40000"), server), Some(1_000));
        assert_eq!(user_in(&row("01", 0), client, server), None, "no program holds it");
        for state in ["02", "06", "07", "0A"] {
            assert_eq!(user_in(&row(state, 5), client, server), None, "state {state}");
        }
        assert_eq!(user_in(&row("01", 5), server, client), None, "our own end");
        for broken in ["", "sl local", "1: x y 01", "1: 0:0 0:0 01", "0: 00000000:0000"] {
            assert_eq!(user_in(broken, client, server), None, "{broken:?}");
        }
    }

    #[test]
    fn the_user_of_a_connection_within_this_host_is_known_for_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, remote) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            let both = || [user_of(remote, local), user_in_tables(remote, local)];
            assert_eq!(both(), [own_user(); 2], "{address}");
            assert!(own_user().is_some());
            assert_eq!(user_of(SocketAddr::new(remote.ip(), 1), local), None, "{address}: there is no such connection");
            drop(client);
            assert_eq!(both(), [None; 2], "{address}: whoever hung up is nobody");
        }
    }
}
