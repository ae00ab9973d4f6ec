//! Where a listener is: an address, or a socket file that only its user may open.

use std::fmt::{self, Display};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};
use std::{net::SocketAddr, os::unix::net::UnixStream};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket file.
    Socket(PathBuf),
    /// An address; port 0 stands for any free one.
    Address(SocketAddr),
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::Address(address) => write!(f, "http://{address}"),
        }
    }
}

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Both addresses of a connection: of the other end, and of ours.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// A connection as it was accepted.
pub(crate) struct Accepted {
    pub(crate) stream: Box<dyn Stream>,
    /// Absent for a socket file.
    pub(crate) remote: Option<SocketAddr>,
    /// Absent also where the operating system does not know them.
    pub(crate) ends: Option<Ends>,
}

/// A socket that takes connections.
pub(crate) enum Socket {
    File(UnixListener),
    Address(TcpListener),
}

impl Socket {
    /// Binds, and names the endpoint with the port that it got. Must be called inside of the runtime.
    pub(crate) async fn bind(endpoint: &Endpoint) -> io::Result<(Self, Endpoint)> {
        match endpoint {
            Endpoint::Socket(path) => Ok((Self::File(bind_file(path)?), endpoint.clone())),
            Endpoint::Address(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = listener.local_addr()?;
                Ok((Self::Address(listener), Endpoint::Address(address)))
            }
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::File(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted { stream: Box::new(stream), remote: None, ends: None })
            }
            Self::Address(listener) => {
                let (stream, remote) = listener.accept().await?;
                // Small answers should leave at once; where that cannot be set they leave a little later.
                let _ = stream.set_nodelay(true);
                let ends = stream.local_addr().ok().map(|local| (remote, local));
                Ok(Accepted { stream: Box::new(stream), remote: Some(remote), ends })
            }
        }
    }
}

/// A socket file for this user alone: bound under another name, closed to others, then put in its place.
fn bind_file(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another guard answers there"));
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_a_dead_one_is_replaced() {
        let dir = std::env::temp_dir().join(format!("lw-sidecar-{}", std::process::id()));
        let path = dir.join("deep/guard.sock");
        let first = bind_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(bind_file(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(bind_file(&path).is_ok());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no other name is left");
        fs::remove_dir_all(&dir).unwrap();
    }
}
