"""The embedded process for tests in Python: the program with a log of its own, in live mode."""

import contextlib
import subprocess
import sys
from pathlib import Path


@contextlib.contextmanager
def running(program, scratch):
    """Gives the address of the process, which ends with the block; that it ends badly is an error. Its log is SCRATCH/log."""
    command = [program, "run", "--data-dir", f"{scratch}/data", "--log-level", "warn"]
    for setting in ["http.listen=127.0.0.1:0", "mode=live"]:
        command += ["--set", setting]
    log = Path(scratch, "log")
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            yield address(process)
        finally:
            process.terminate()
    if process.returncode != 0:
        sys.exit(f"the process ended with {process.returncode}: {log.read_text()}")


def address(process):
    """The address in the greeting, whose last line comes when the process is ready."""
    greeting = ""
    for line in process.stdout:
        greeting += line
        if "/v1/commands?" in line:
            return "http://" + greeting.split("http://")[1].split("/")[0]
    sys.exit(f"the process ended before it was ready: {greeting}")
