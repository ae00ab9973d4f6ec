//! Who listens at the other end: this user, root, or the user that an installation named. Anybody else on a shared machine may have taken
//! the address while loopwarden was away, would read what agents do, and answer in its name.
//!
//! The kernel says who it is, not the other end: by the owner of a socket file, which must lie where nobody else can put one; by its table of
//! connections for an address. That table is Linux's. Elsewhere nobody is known at an address, and a socket file serves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::{fs, io};

/// Much of a kernel's table of connections that is read. Bytes. Listeners stand in front; a row has 150.
#[cfg(target_os = "linux")]
const TABLE_BYTES_MAX: u64 = 1024 * 1024;
/// State of a socket that listens, in the kernel's tables.
const LISTEN: &str = "0A";
/// Rights of folders.
const GROUP_AND_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The administrator, who reads everything anyway.
const ROOT: u32 = 0;

/// Users that may listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trusted {
    own: u32,
    named: Option<u32>,
}

impl Trusted {
    /// This user, root, and the one that is named besides.
    pub(crate) fn new(named: Option<u32>) -> Self {
        Self { own: rustix::process::geteuid().as_raw(), named }
    }

    fn is(self, uid: u32) -> bool {
        uid == self.own || uid == ROOT || Some(uid) == self.named
    }

    /// Connects to a socket file.
    ///
    /// # Errors
    /// Somebody else listens there, or could put a file of his own in its place.
    pub(crate) fn socket(self, path: &str) -> io::Result<UnixStream> {
        let path = fs::canonicalize(path)?;
        let before = self.owned(&path)?;
        let stream = UnixStream::connect(&path)?;
        if self.owned(&path)? == before { Ok(stream) } else { Err(refused("its socket file was replaced just now")) }
    }

    /// Device and inode of a socket file that only those who are trusted can replace.
    fn owned(self, path: &Path) -> io::Result<(u64, u64)> {
        let file = fs::symlink_metadata(path)?;
        if !file.file_type().is_socket() {
            return Err(refused("its address is no socket file"));
        }
        self.check(std::iter::once(file.uid()))?;
        for folder in path.ancestors().skip(1) {
            let held = fs::symlink_metadata(folder)?;
            // In a sticky folder nobody takes away what is another's.
            let is_closed = held.mode() & GROUP_AND_OTHERS_WRITE == 0 || held.mode() & STICKY != 0;
            if !is_closed || !self.is(held.uid()) {
                return Err(refused(&format!("others may put a socket file of theirs into {}", folder.display())));
            }
        }
        Ok((file.dev(), file.ino()))
    }

    /// # Errors
    /// Somebody else listens at the address, or it cannot be told who.
    pub(crate) fn check_address(self, stream: &TcpStream) -> io::Result<()> {
        let (server, client) = (stream.peer_addr()?, stream.local_addr()?);
        let tables = tables()?;
        let rows: Vec<Row> = tables.iter().flat_map(|table| table.lines().filter_map(Row::read)).collect();
        self.check(answering(&rows, server, client).into_iter())
    }

    fn check(self, uids: impl Iterator<Item = u32>) -> io::Result<()> {
        let mut is_known = false;
        for uid in uids {
            if !self.is(uid) {
                return Err(refused(&format!("user {uid} listens there, neither you nor root; the file hook-uid may name it")));
            }
            is_known = true;
        }
        if is_known { Ok(()) } else { Err(refused("it cannot be told which user listens there")) }
    }
}

/// Whether nothing was sent, because somebody listens who is not known.
pub fn is_stranger(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// The kernel's tables of connections over IPv4 and IPv6. One may be missing where the other is all there is.
#[cfg(target_os = "linux")]
fn tables() -> io::Result<[String; 2]> {
    use std::io::Read as _;

    let read = |path: &str| -> io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(TABLE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok([read("/proc/self/net/tcp")?, read("/proc/self/net/tcp6").unwrap_or_default()])
}

#[cfg(not(target_os = "linux"))]
fn tables() -> io::Result<[String; 2]> {
    Err(refused("it cannot be told which user listens there"))
}

/// A socket in the kernel's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    is_listening: bool,
    uid: u32,
}

impl Row {
    /// Reads a line: number, both addresses, state, queues, timer, retransmissions, user, time-out, inode. Sockets that no process holds
    /// yet, or any more, have neither a user nor an inode.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (uid, inode) = (words.get(7)?.parse().ok()?, words.get(9)?);
        let (local, remote) = (address(words.get(1)?)?, address(words.get(2)?)?);
        (*inode != "0").then_some(Self { local, remote, is_listening: *words.get(3)? == LISTEN, uid })
    }
}

/// An address as the kernel writes it: words of 32 bits in hexadecimal, their bytes in the order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Users of those who may answer a connection from `client` to `server`: whoever has accepted it, and the listeners that the kernel prefers, as
/// it does: the address itself, then all of IPv4, then all of IPv6. A listener that comes after another one gets nothing of it.
fn answering(rows: &[Row], server: SocketAddr, client: SocketAddr) -> Vec<u32> {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (server, client) = (plain(server), plain(client));
    let rank = |row: &Row| {
        if !row.is_listening || row.local.port() != server.port() {
            return None;
        }
        match row.local.ip() {
            ip if ip.to_canonical() == server.ip() => Some(0_u8),
            IpAddr::V4(ip) if ip.is_unspecified() && server.is_ipv4() => Some(1),
            IpAddr::V6(ip) if ip.is_unspecified() => Some(2),
            _ => None,
        }
    };
    let Some(best) = rows.iter().filter_map(rank).min() else { return Vec::new() };
    let has_accepted = |row: &Row| !row.is_listening && plain(row.local) == server && plain(row.remote) == client;
    rows.iter().filter(|row| rank(row) == Some(best) || has_accepted(row)).map(|row| row.uid).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A row as the kernel writes it on a little-endian machine.
    fn row(local: &str, remote: &str, state: &str, uid: u32, inode: u32) -> Option<Row> {
        Row::read(&format!("   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:>5}        0 {inode} 1 0"))
    }

    const NOBODY: &str = "00000000:0000";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_tables_of_the_kernel_are_read() {
        let listens = row("0100007F:24F8", NOBODY, "0A", 1000, 77).unwrap();
        assert_eq!((listens.local, listens.is_listening, listens.uid), ("127.0.0.1:9464".parse().unwrap(), true, 1000));
        let six = row("00000000000000000000000001000000:24F8", "00000000000000000000000000000000:0000", "0A", 5, 1).unwrap();
        assert_eq!(six.local, "[::1]:9464".parse().unwrap());
        // Nobody has accepted it so far: the user of such a row says nothing.
        assert_eq!(row("0100007F:24F8", "0100007F:8000", "01", 0, 0), None);
        for other in
            ["", "  sl  local_address rem_address   st tx_queue", "0: x y 0A a b c 1 0 1", "0: 01:01 01:01 0A a b c 1 0 1"]
        {
            assert_eq!(Row::read(other), None, "{other}");
        }
    }

    #[test]
    fn who_answers_is_whom_the_kernel_prefers_and_who_has_accepted() {
        let at = |local: &str, remote: &str, is_listening, uid| Row {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            is_listening,
            uid,
        };
        let users = |rows: &[Row]| answering(rows, "127.0.0.1:9464".parse().unwrap(), "127.0.0.1:5000".parse().unwrap());
        let exact = at("127.0.0.1:9464", "0.0.0.0:0", true, 1);
        let mapped = at("[::ffff:127.0.0.1]:9464", "[::]:0", true, 2);
        let all = at("0.0.0.0:9464", "0.0.0.0:0", true, 3);
        let six = at("[::]:9464", "[::]:0", true, 4);
        let others = [
            at("127.0.0.1:9465", "0.0.0.0:0", true, 9),
            at("127.0.0.2:9464", "0.0.0.0:0", true, 9),
            at("[::1]:9464", "[::]:0", true, 9),
        ];
        assert_eq!(users(&others), []);
        assert_eq!(users(&[six]), [4]);
        // Whoever listens for IPv6 alone must not be able to silence the guard.
        assert_eq!(users(&[six, all]), [3]);
        assert_eq!(users(&[six, exact]), [1]);
        assert_eq!(users(&[all, mapped]), [2]);
        // Accepted by one user, whose listener is gone and has made room for another's.
        let accepted = at("127.0.0.1:9464", "127.0.0.1:5000", false, 7);
        assert_eq!(users(&[exact, accepted, at("127.0.0.1:9464", "127.0.0.1:5001", false, 8)]), [1, 7]);
        assert_eq!(users(&[accepted]), [], "nobody listens");
        let six = [at("[::1]:9464", "[::]:0", true, 1), at("0.0.0.0:9464", "0.0.0.0:0", true, 2)];
        assert_eq!(answering(&six, "[::1]:9464".parse().unwrap(), "[::1]:5000".parse().unwrap()), [1]);
    }

    #[test]
    fn only_this_user_root_and_the_one_that_is_named_are_spoken_to() {
        let trusted = Trusted { own: 1000, named: Some(900) };
        for (uids, is_trusted) in
            [(&[1000][..], true), (&[0], true), (&[900], true), (&[1001], false), (&[1000, 65_534], false), (&[], false)]
        {
            let checked = trusted.check(uids.iter().copied());
            assert_eq!(checked.is_ok(), is_trusted, "{uids:?}");
            assert!(checked.is_ok() || checked.is_err_and(|error| is_stranger(&error)));
        }
        assert!(Trusted { own: 1000, named: None }.check(std::iter::once(900)).is_err());
    }

    #[test]
    fn listeners_of_this_process_are_this_user_s() {
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let Ok(stream) = TcpStream::connect((to, port)) else { continue };
            Trusted::new(None).check_address(&stream).unwrap();
            let _accepted = listener.accept().unwrap();
            Trusted::new(None).check_address(&stream).unwrap();
            assert!(
                Trusted { own: u32::MAX, named: None }.check_address(&stream).is_err() || rustix::process::geteuid().is_root()
            );
        }
    }

    #[test]
    fn a_socket_file_is_its_owner_s_where_nobody_else_can_replace_it() {
        let folder = std::env::temp_dir().join(format!("lw-peer-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let trusted = Trusted::new(None);
        let connected = |mode: u32| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            trusted.socket(path.to_str().unwrap()).map(drop)
        };
        for (mode, is_closed) in [(0o700, true), (0o755, true), (0o777, false), (0o770, false), (0o1777, true)] {
            assert_eq!(connected(mode).is_ok(), is_closed, "{mode:o}");
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        trusted.socket(link.to_str().unwrap()).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        assert!(trusted.socket(folder.join("file").to_str().unwrap()).is_err_and(|error| is_stranger(&error)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
