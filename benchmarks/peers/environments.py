"""An environment for each library, and running it there."""

import collections
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.exchange import say

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A library: its module here, and what pip installs for it; nothing for ourselves."""

    label: str
    module: str
    requirements: tuple[str, ...]


PEERS = {
    "pipelinedp": Peer(
        label="PipelineDP",
        module="benchmarks.peers.pipelinedp",
        requirements=("pipeline-dp==0.3.1", "dp-accounting==0.6.0"),
    ),
    "opendp": Peer(
        label="OpenDP",
        module="benchmarks.peers.opendp",
        requirements=("opendp[polars]==0.16.0",),
    ),
    "tumult": Peer(
        label="Tumult Analytics",
        module="benchmarks.peers.tumult",
        requirements=("tmlt.analytics==0.21.0",),
    ),
    "ours": Peer(label="privalue", module="benchmarks.peers.ours", requirements=()),
}


class PeerError(Exception):
    """A library could not be installed, or its script failed."""


def interpreter(name: str, folder: Path, python: str = sys.executable) -> Path:
    """The Python of a library's environment, made if it is not there; ours is the present one."""
    peer = PEERS[name]
    if not peer.requirements:
        return Path(sys.executable)
    place = folder / name
    stamp = place / "installed.txt"
    python_here = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    requirements = "\n".join(peer.requirements) + "\n"
    if stamp.is_file() and stamp.read_text() == requirements and python_here.exists():
        return python_here
    say(f"{peer.label}: making its environment")
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    _call([python, "-m", "venv", str(place)])
    _call([str(python_here), "-m", "pip", "install", "--quiet", *peer.requirements])
    stamp.write_text(requirements)
    return python_here


def run(name: str, python: Path, task: Path, result: Path, *, timeout: float) -> None:
    """Run a library's script; its output goes to stderr as it comes.

    Raises:
        PeerError: if it fails or takes too long; the message is the last that it said.
    """
    peer = PEERS[name]
    variables = dict(os.environ)
    if peer.requirements:
        variables.pop("PYTHONPATH", None)  # nothing of ours in its environment
    with subprocess.Popen(
        [str(python), "-m", peer.module, str(task), str(result)],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        clock = threading.Timer(timeout, process.kill)
        clock.start()
        last: collections.deque[str] = collections.deque(maxlen=1)
        try:
            for line in process.stdout or ():
                sys.stderr.write(line)
                if line.strip():
                    last.append(line.strip())
        finally:
            late = clock.finished.is_set()
            clock.cancel()
    if process.returncode != 0:
        reason = f"stopped after {timeout:g} s" if late else (last[0] if last else "no message")
        raise PeerError(f"its script failed ({process.returncode}): {reason[:300]}")


def _call(command: list[str]) -> None:
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode != 0:
        lines = [line for line in process.stderr.splitlines() if line.strip()] or ["no message"]
        raise PeerError(f"not installed: {lines[-1][:300]}")
