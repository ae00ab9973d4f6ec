//! Who listens at the other end: this user, root, or the user that an installation named. Anybody else on a shared machine may have taken
//! the address while loopwarden was away, would read what agents do, and answer in its name.
//!
//! The kernel says who it is, not the other end: by the owner of a socket file, which must lie where nobody else can put one; by its table of
//! listeners for an address. That table is Linux's. Elsewhere nobody is known at an address, and a socket file serves.
//!
//! Both are looked at before connecting and after: whoever took the address in between had to leave it again to somebody who is known.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::{fs, io};
use std::{os::unix::net::UnixStream, path::Path, time::Duration};

#[cfg(target_os = "linux")]
use crate::listeners::listener_at;

/// Why nobody is asked at an address whose listener the kernel does not name.
const UNKNOWN: &str = "it cannot be told which user listens there";
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
        self.check(Some(file.uid()))?;
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

    /// Connects to an address. On another host nobody is looked at.
    ///
    /// # Errors
    /// Somebody else listens there on this host, or it cannot be told who.
    pub(crate) fn address(self, server: SocketAddr, wait: Duration) -> io::Result<TcpStream> {
        let known = || self.check(listener_at(server)?);
        let before = known();
        let stream = TcpStream::connect_timeout(&server, wait)?;
        let is_here = server.ip().to_canonical().is_loopback() || stream.local_addr()?.ip() == server.ip();
        // That nobody listens is said by who connects.
        if is_here { before.and_then(|()| known()).map(|()| stream) } else { Ok(stream) }
    }

    fn check(self, uid: Option<u32>) -> io::Result<()> {
        match uid {
            Some(uid) if self.is(uid) => Ok(()),
            Some(uid) => Err(refused(&format!("user {uid} listens there, neither you nor root; the file hook-uid may name it"))),
            None => Err(refused(UNKNOWN)),
        }
    }
}

/// Whether nothing was sent, because somebody listens who is not known.
pub fn is_stranger(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Nobody is known at an address where the kernel has no such table.
#[cfg(not(target_os = "linux"))]
fn listener_at(_: SocketAddr) -> io::Result<Option<u32>> {
    Err(refused(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, os::unix::fs::PermissionsExt as _, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn only_this_user_root_and_the_one_that_is_named_are_spoken_to() {
        let trusted = Trusted { own: 1000, named: Some(900) };
        for (uid, is_trusted) in [(Some(1000), true), (Some(0), true), (Some(900), true), (Some(1001), false), (None, false)] {
            let checked = trusted.check(uid);
            assert_eq!(checked.is_ok(), is_trusted, "{uid:?}");
            assert!(checked.is_ok() || checked.is_err_and(|error| is_stranger(&error)));
        }
        assert!(Trusted { own: 1000, named: None }.check(Some(900)).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn listeners_of_this_process_are_this_user_s() {
        let wait = Duration::from_secs(10);
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let to = if address.starts_with("[::1]") { "[::1]" } else { "127.0.0.1" };
            let server: SocketAddr = format!("{to}:{}", listener.local_addr().unwrap().port()).parse().unwrap();
            Trusted::new(None).address(server, wait).unwrap();
            assert_eq!(listener_at(server).unwrap(), Some(rustix::process::geteuid().as_raw()));
            drop(listener);
            assert_eq!(Trusted::new(None).address(server, wait).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
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
