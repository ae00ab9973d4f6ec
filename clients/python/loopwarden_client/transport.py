"""HTTP to the guard with one deadline over everything, by http.client: TCP or a Unix socket, connections kept alive."""

import http.client
import os
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from .peer import StrangerError, check

ANSWER_BYTES_MAX = 64 * 1024
IDLE_MAX = 8
IDLE_S_MAX = 30.0


class TransportError(Exception):
    """No answer. `code` is a word for it; `counts` says whether the guard is to blame, and not the one request."""

    def __init__(self, code: str, counts: bool = True) -> None:
        super().__init__(code)
        self.code = code
        self.counts = counts


class DeadlineSocket(socket.socket):
    """A socket whose reads end at one point in time: a peer that sends a byte now and then gains nothing."""

    deadline = 0.0

    def left(self, most: float = float("inf")) -> None:
        """Sets the time-out of the next operation. Raises TimeoutError where no time is left."""
        left = min(self.deadline - time.monotonic(), most)
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.left()
        return super().recv_into(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.left()
        super().sendall(*args, **kwargs)


class Address:
    """Where the guard listens: `http://127.0.0.1:9464`, or `unix:/path/to/socket`."""

    def __init__(self, text: str, connect_s: float, uid: int | None = None) -> None:
        self._connect_s = connect_s
        self._uid = uid
        self.path: str | None = None
        self.host, self.port = "localhost", 0
        if text.startswith("unix:"):
            self.path = text[len("unix:") :].removeprefix("//")
            if not self.path:
                raise ValueError(f"{text!r} names no socket: unix:/path/to/socket")
            return
        parts = urlsplit(text)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
            raise ValueError(f"{text!r} is no address of a guard: http://127.0.0.1:9464 or unix:/path/to/socket")
        self.host, self.port = parts.hostname, parts.port or 80
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._found: list[Any] = []

    def connect(self, deadline: float) -> DeadlineSocket:
        """A socket that is connected to a known user, within the time to connect and the deadline. Raises OSError."""
        until = min(deadline, time.monotonic() + self._connect_s)
        if self.path is not None:
            return self._dial(socket.AF_UNIX, self.path, until, deadline)
        refused: OSError = TimeoutError()
        for family, address in self._resolve(until):
            try:
                return self._dial(family, address, until, deadline)
            except OSError as error:
                refused = error
        raise refused

    def _dial(self, family: int, address: Any, until: float, deadline: float) -> DeadlineSocket:
        sock = DeadlineSocket(family, socket.SOCK_STREAM)
        try:
            sock.deadline = until
            sock.left()
            sock.connect(address)
            if isinstance(address, tuple):  # TCP
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            check(sock, self._uid)
        except BaseException:
            sock.close()
            raise
        sock.deadline = deadline
        return sock

    def _resolve(self, until: float) -> list[Any]:
        """Addresses of the name. The system's look-up has no time-out of its own, so it runs on a thread; its answer stays."""
        if not self._found:
            with self._lock:
                if self._looking is None or not self._looking.is_alive():
                    self._looking = threading.Thread(target=self._look_up, name="loopwarden-dns", daemon=True)
                    self._looking.start()
                looking = self._looking
            looking.join(max(0.0, until - time.monotonic()))
        return self._found

    def _look_up(self) -> None:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self._found = [(family, address) for family, _, _, _, address in found][:4]
        except OSError:
            pass  # the next connection looks again


class Transport:
    """Posts bodies and gives back the bodies of answers. Safe to use from any thread, and after a fork."""

    def __init__(self, address: str, token: str | None, connect_s: float, uid: int | None = None) -> None:
        self._address = Address(address, connect_s, uid)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ValueError("a token is printable ASCII without spaces")
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._pid = os.getpid()

    def post(self, path: str, body: bytes, deadline: float) -> bytes:
        """Sends and reads until the deadline, a point of `time.monotonic`. Raises TransportError."""
        try:
            connection = self._take()
            if connection is not None:
                try:
                    return self._ask(connection, path, body, deadline)
                except (http.client.RemoteDisconnected, ConnectionError):
                    pass  # closed while it was idle: once more, on a new one
            return self._ask(self._new(deadline), path, body, deadline)
        except TimeoutError as error:
            raise TransportError("timeout") from error
        except StrangerError as error:
            raise TransportError("stranger") from error
        except OSError as error:
            raise TransportError("unreachable") from error
        except (http.client.HTTPException, ValueError) as error:
            raise TransportError("not_http") from error

    def close(self) -> None:
        """Closes the connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection, path: str, body: bytes, deadline: float) -> bytes:
        is_kept = False
        try:
            sock = connection.sock
            assert isinstance(sock, DeadlineSocket)
            sock.deadline = deadline
            connection.request("POST", path, body, self._headers)
            response = connection.getresponse()
            answer = response.read(ANSWER_BYTES_MAX + 1)
            if response.status != 200:
                raise TransportError(f"status_{response.status}", counts=response.status not in (400, 413))
            if len(answer) > ANSWER_BYTES_MAX:
                raise TransportError("answer_too_large")
            # The last read of a chunked answer finds its end.
            is_kept = not response.will_close and not response.read(1) and response.isclosed()
            return answer
        finally:
            if is_kept:
                self._give_back(connection)
            else:
                connection.close()

    def _new(self, deadline: float) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self._address.host, self._address.port or None)
        connection.auto_open = 0
        connection.sock = self._address.connect(deadline)
        return connection

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._idle = os.getpid(), []  # they belong to the parent
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_S_MAX and _is_quiet(connection.sock):
                    return connection
                connection.close()
        return None

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._pid == os.getpid() and len(self._idle) < IDLE_MAX:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()


def _is_quiet(sock: socket.socket | None) -> bool:
    """Whether an idle connection is open and has nothing to say: what it says now would be taken for the next answer."""
    if sock is None:
        return False
    try:
        sock.settimeout(0)
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
