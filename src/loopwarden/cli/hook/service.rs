//! loopwarden itself as a service of the user, on this machine alone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where the unit lies.
pub(super) fn path(config: &Path) -> PathBuf {
    config.join("systemd/user/loopwarden.service")
}

/// The unit. Paths with a `%` or a blank are written as systemd reads them.
pub(super) fn unit(program: &Path, address: SocketAddr) -> String {
    let program = program.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!(
        "# Written by loopwarden hook install --local.\n\
         [Unit]\n\
         Description=loopwarden: finds AI agents that go round in circles\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart=\"{program}\" run --data-dir %S/loopwarden --set http.listen={address} --set mode=live\n\
         StateDirectory=loopwarden\n\
         StateDirectoryMode=0700\n\
         UMask=0077\n\
         LimitNOFILE=65536\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         RestartPreventExitStatus=2 75 78\n\
         NoNewPrivileges=yes\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}
