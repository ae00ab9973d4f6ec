"""Whether what `fdatasync` called done is there after ext4 has given up its journal. It needs root on Linux.

    python3 tests/chaos/aborted_sync.py [ROUNDS]

Each round appends to files and syncs each append. A `mount -o remount,abort` ends it, at some moment of a sync or, in the second half of
the rounds, while the writer is stopped between two calls. Then the image is checked, mounted again and compared.
"""

import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

SIZES = [200, 3_000, 40_000, 200_000]
FILE_BYTES_MAX = 8_000_000
IMAGE_BYTES = 1 << 30
WRITER_WAIT_S = 60


def run(*command: str) -> int:
    return subprocess.run(command, capture_output=True).returncode


def write(folder: str, told: int) -> None:
    """Appends and syncs until that fails. Tells the number of each file and its size after each sync."""
    for number in range(1, 1_000_000):
        file = os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY, 0o644)
        names = os.open(folder, os.O_RDONLY)
        os.fsync(names)
        os.close(names)
        size = 0
        while size < FILE_BYTES_MAX:
            size += os.write(file, b"x" * random.choice(SIZES))
            os.fdatasync(file)
            os.write(told, struct.pack("<QQ", number, size))
        os.close(file)
        if number > 2:
            os.unlink(f"{folder}/{number - 2}")


def synced(stream: int, until: float) -> dict[int, int]:
    """What was told until then, or until nobody tells any more: the last synced size of each file."""
    text = b""
    while (left := until - time.monotonic()) > 0:
        if select.select([stream], [], [], left)[0]:
            more = os.read(stream, 65_536)
            if not more:
                break
            text += more
    return dict(struct.iter_unpack("<QQ", text[: len(text) // 16 * 16]))


def is_stopped(process: int) -> bool:
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "T"


def round_of(image: str, folder: str, is_between_calls: bool) -> bool:
    """Whether something was lost that had been synced."""
    stream, told = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            write(folder, told)
        finally:
            os._exit(0)
    os.close(told)
    sizes = synced(stream, time.monotonic() + random.uniform(0.02, 0.3))
    if is_between_calls:
        os.kill(writer, signal.SIGSTOP)
        while not is_stopped(writer):
            pass
    assert run("mount", "-o", "remount,abort", folder) == 0
    if is_between_calls:
        os.kill(writer, signal.SIGCONT)
    sizes |= synced(stream, time.monotonic() + WRITER_WAIT_S)
    os.waitpid(writer, 0)
    os.close(stream)
    assert run("umount", folder) == 0
    assert run("e2fsck", "-p", image) <= 1
    assert run("mount", "-o", "loop", image, folder) == 0
    last = max(sizes, default=0)
    path = f"{folder}/{last}"
    is_lost = last > 0 and (not os.path.exists(path) or os.path.getsize(path) < sizes[last])
    for name in os.listdir(folder):
        if name.isdigit():
            os.unlink(f"{folder}/{name}")
    return is_lost


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as root:
        image, folder = f"{root}/image", f"{root}/disk"
        os.mkdir(folder)
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        assert run("mkfs.ext4", "-q", "-F", image) == 0
        assert run("mount", "-o", "loop", image, folder) == 0
        try:
            for is_between_calls, when in [(False, "at any moment"), (True, "between two calls of the writer")]:
                lost = sum(round_of(image, folder, is_between_calls) for _ in range(rounds // 2))
                print(f"Linux {os.uname().release}, journal given up {when}: synced data lost in {lost} of {rounds // 2} rounds")
        finally:
            run("umount", "-l", folder)


if __name__ == "__main__":
    main()
