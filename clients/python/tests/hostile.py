"""A server that reads one request and answers with bytes of the test's choice, or not at all."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket, threading.Event], None]


def sends(*parts: bytes) -> Answer:
    """These bytes, and then the connection is closed."""

    def answer(connection: socket.socket, _: threading.Event) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


def http(body: bytes, status: str = "200 OK", *headers: bytes) -> Answer:
    """A whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n".encode()
    return sends(head + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body)


def silent(connection: socket.socket, over: threading.Event) -> None:
    """Nothing, until the test is over."""
    over.wait()


def dribbling(connection: socket.socket, over: threading.Event) -> None:
    """A byte now and then, for ever: each of them would begin a time-out per read anew."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    while not over.wait(0.01):
        connection.sendall(b" ")


def endless(connection: socket.socket, over: threading.Event) -> None:
    """As many bytes as the other side takes."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"x" * 65_536)


def continues(connection: socket.socket, over: threading.Event) -> None:
    """Interim answers without end."""
    while not over.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Runs it: its address, and the requests that came."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    requests: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65_536)
                head, _, body = request.partition(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                while len(body) < length:
                    body += connection.recv(65_536)
                requests.append(body)
                answer(connection, over)
            except (OSError, IndexError):
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
