"""Who listens on this machine: this user, root, or the user that the caller names.

Anybody else may have taken the guard's address while it was away; he would read what agents do, and answer for it.

The kernel says who it is, on Linux. Elsewhere it does not, and nobody is refused.
"""

import os
import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

# A kernel's table of connections is read this far. Bytes. Listeners stand in front.
TABLE_BYTES_MAX = 1024 * 1024
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
LISTEN = "0A"
ROOT = 0

Ip = IPv4Address | IPv6Address


class StrangerError(OSError):
    """Somebody listens who is not known. Nothing was sent."""


class Row(NamedTuple):
    """A socket that a process holds."""

    local: tuple[Ip, int]
    remote: tuple[Ip, int]
    is_listening: bool
    uid: int


def check(sock: socket.socket, named: int | None) -> None:
    """Raises StrangerError where another user of this machine holds the other end, or where Linux cannot tell."""
    if not sys.platform.startswith("linux"):
        return
    if sock.family == socket.AF_UNIX:
        uids = [struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))[1]]
    else:
        server, client = _end(sock.getpeername()), _end(sock.getsockname())
        if not server[0].is_loopback:
            return
        uids = answering(_rows(), server, client)
    if not uids or not set(uids) <= {os.geteuid(), ROOT, named}:
        raise StrangerError


def answering(rows: list[Row], server: tuple[Ip, int], client: tuple[Ip, int]) -> list[int]:
    """Users of those who may answer: whoever has accepted the connection, and the listeners that the kernel prefers for it."""
    ranks = {id(row): _rank(row, server) for row in rows}
    best = min((rank for rank in ranks.values() if rank is not None), default=None)
    if best is None:
        return []
    accepted = (row for row in rows if not row.is_listening and (row.local, row.remote) == (server, client))
    return [row.uid for row in rows if ranks[id(row)] == best] + [row.uid for row in accepted]


def read_row(line: str) -> Row | None:
    """Reads a line of the kernel's table. Sockets that no process holds have neither a user nor an inode."""
    words = line.split()
    if len(words) < 10 or words[9] == "0":
        return None
    try:
        return Row(_address(words[1]), _address(words[2]), words[3] == LISTEN, int(words[7]))
    except ValueError:
        return None


def _rank(row: Row, server: tuple[Ip, int]) -> int | None:
    # The address itself, then all of IPv4, then all of IPv6. What the row holds of IPv4 within IPv6 counts as IPv4.
    if not row.is_listening or row.local[1] != server[1]:
        return None
    if row.local[0] == server[0]:
        return 0
    if not row.local[0].is_unspecified:
        return None
    if row.local[0].version == 6:
        return 2
    return 1 if server[0].version == 4 else None


def _rows() -> list[Row]:
    rows = []
    for path in TABLES:
        try:
            with Path(path).open(encoding="ascii", errors="replace") as table:
                rows += [row for line in table.read(TABLE_BYTES_MAX).splitlines() if (row := read_row(line))]
        except OSError:
            continue
    return rows


def _address(text: str) -> tuple[Ip, int]:
    ip, port = text.split(":")
    # Words of 32 bits, their bytes in the order of the machine.
    words = (int(ip[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(ip), 8))
    return _plain(ip_address(b"".join(words))), int(port, 16)


def _end(name: tuple[str, int] | tuple[str, int, int, int]) -> tuple[Ip, int]:
    return _plain(ip_address(name[0].split("%")[0])), name[1]


def _plain(ip: Ip) -> Ip:
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
