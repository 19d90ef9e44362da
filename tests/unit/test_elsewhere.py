"""On another machine than a developer's Linux: without the extras, and with what only Linux has taken away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Names that Python has on Linux and not on macOS (docs.python.org, "Availability").
LINUX_ONLY = {
    "os": (
        "sched_getaffinity sched_setaffinity waitid P_PID P_PGID P_ALL WEXITED WNOWAIT WSTOPPED pidfd_open memfd_create"
        " eventfd splice copy_file_range posix_fadvise posix_fallocate getrandom O_TMPFILE O_PATH O_DIRECT O_NOATIME"
        " getresuid setresuid setxattr getxattr"
    ),
    "select": "epoll EPOLLIN",
    "signal": "sigtimedwait sigwaitinfo SIGPWR SIGSTKFLT SIGPOLL SIGRTMIN SIGRTMAX",
    "socket": "TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_QUICKACK TCP_INFO SO_BINDTODEVICE AF_PACKET AF_NETLINK",
    "fcntl": "F_OFD_SETLK F_SETPIPE_SZ F_ADD_SEALS",
    "resource": "prlimit RLIMIT_SIGPENDING RLIMIT_MSGQUEUE",
}
EXTRAS = ("couchbase", "dbos", "pandas", "pyarrow", "psycopg", "fabric", "paramiko", "invoke")
HIDE = f"""
import importlib, sys
for module, names in {LINUX_ONLY!r}.items():
    for name in names.split():
        if hasattr(importlib.import_module(module), name):
            delattr(sys.modules[module], name)
"""
MISSING = f"""
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in {EXTRAS!r} else found(name, *rest)
"""


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


EVERYTHING = """
import pkgutil, perfrunner
names = [m.name for m in pkgutil.walk_packages(perfrunner.__path__, "perfrunner.") if not m.name.endswith("__main__")]
for name in names:
    if name not in spared:
        importlib.import_module(name)
print(len(names))
"""


@pytest.mark.parametrize("hidden", [HIDE, MISSING], ids=["only on Linux", "extras"])
def test_every_module_can_be_imported(tmp_path: Path, hidden: str) -> None:
    # Modules of fabric's and paramiko's classes, and what only `perfrunner fleet` imports when it is asked for
    spared = (
        (
            "perfrunner.hosts.connection", "perfrunner.hosts.hostkeys", "perfrunner.hosts.identities",
            "perfrunner.hosts.ssh",
            "perfrunner.fleet.queue", "perfrunner.fleet.worker",
        )
        if hidden is MISSING
        else ()
    )  # fmt: skip
    done = run(f"import importlib\n{hidden}\nspared = {spared!r}\n{EVERYTHING}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150


def test_commands_run_and_end_without_what_only_linux_has(tmp_path: Path) -> None:
    code = f"""{HIDE}
import socket, time
from perfrunner.build.tree import parallelism
from perfrunner.hosts import CommandTimeout
from perfrunner.hosts.connection import responsive_socket
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.openssh import Destination, resolve
assert parallelism() >= 1
local = LocalTransport("here")
local.open_work_dir({str(tmp_path / "work")!r})
assert local.run(["echo", "x"]).stdout == "x\\n"
try:
    local.run(["sleep", "60"], timeout=0.2)
except CommandTimeout:
    pass
else:
    raise AssertionError("no time-out")
with socket.create_server(("127.0.0.1", 0)) as server:
    address, port = server.getsockname()
    with responsive_socket(resolve(Destination(address, port, config="/dev/null"))) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


CLUSTER = """\
name: far
transport: ssh
hosts: {kv: {address: 192.0.2.1}}
engine_nodes: [kv]
load_clients: [kv]
"""
COMMAND = "from perfrunner.cli import main; main({words!r}, prog_name='perfrunner')"


def test_ssh_without_its_extra_says_which_to_install(tmp_path: Path) -> None:
    (tmp_path / "far.yaml").write_text(CLUSTER)
    assert run(MISSING + COMMAND.format(words=["init", "specs"]), tmp_path).returncode == 0
    words = ["run", "specs/first.yaml", "--cluster", "far.yaml", "--cache", "cache"]
    done = run(MISSING + COMMAND.format(words=words), tmp_path)
    assert done.returncode == 2, done.stderr
    assert "driving hosts over SSH needs fabric and paramiko" in done.stderr
    assert "hint: pip install 'perfrunner[ssh]'" in done.stderr
    assert not (tmp_path / "perfrunner-results").exists(), "nothing was begun"
    done = run(MISSING + COMMAND.format(words=["tune", "--cluster", "far.yaml"]), tmp_path)
    assert (done.returncode, "perfrunner[ssh]" in done.stderr) == (2, True), done.stderr
    plan = ["plan", "specs/first.yaml", "--cluster", "far.yaml"]
    done = run(MISSING + COMMAND.format(words=plan), tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_sdk_without_its_extra_says_which_to_install(tmp_path: Path) -> None:
    assert run(MISSING + COMMAND.format(words=["init", "specs"]), tmp_path).returncode == 0
    words = ["run", "specs/experiments/sdk.yaml", "--cache", "cache"]
    done = run(MISSING + COMMAND.format(words=words), tmp_path)
    assert done.returncode == 2, done.stderr
    assert "a workload of type sdk needs couchbase: not installed" in done.stderr
    assert "hint: pip install 'perfrunner[sdk]'" in done.stderr
    assert not (tmp_path / "perfrunner-results").exists(), "nothing was begun"


def test_every_extra_that_a_message_or_a_document_names_exists() -> None:
    known = set(re.findall(r"(?m)^(\w+) = \[", (ROOT / "pyproject.toml").read_text()))
    places = [*ROOT.glob("perfrunner/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "pyproject.toml"]
    named = {
        extra
        for path in places
        for words in re.findall(r"perfrunner\[([\w,]+)\]", path.read_text(encoding="utf-8"))
        for extra in words.split(",")
    }
    assert named == {"ssh", "sdk", "export", "fleet", "postgres"}
    assert named <= known
