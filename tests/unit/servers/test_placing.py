"""What a host over SSH gets, and what is its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfrunner.errors import UsageError
from perfrunner.hosts import Host, open_host
from perfrunner.servers.placing import needed_libraries, place
from perfrunner.servers.preload import library_in
from perfrunner.servers.prepare import PreparedServer, prepare
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.variant import Variant

CACHE = """\
2 libs found in cache `/etc/ld.so.cache'
\tlibc.so.6 (libc6) => /lib32/libc.so.6
\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6
\tlibjemalloc.so.2 (libc6,x86-64) => /usr/lib/libjemalloc.so.2
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host that is reached without SSH: what is placed there does not depend on the way."""
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", name="kv") as opened:
        yield opened


def variant(program: str, *behind: str, **fields: Any) -> Variant:
    server = {"command": [program, *behind, "--port", "{port}"]}
    return Variant.model_validate({"name": "v", "server": server, **fields})


def prepared(single: Variant, cache: Path) -> PreparedServer:
    return prepare(single, cache, Path("engine_src"), remote=True)


def test_a_program_is_sent_once_with_what_it_needs(host: Host, tmp_path: Path):
    mine = tmp_path / "mine"
    shutil.copy("/bin/bash", mine)
    single = variant(str(mine), env={"LD_LIBRARY_PATH": "/opt/lib"})
    placed = place(prepared(single, tmp_path), single, host, tmp_path)
    assert placed.sent is not None
    assert placed.program == placed.sent / "bin" / "mine"
    assert placed.env == {"LD_LIBRARY_PATH": f"{placed.sent}/lib:/opt/lib"}
    names = {path.name for path in (placed.sent / "lib").iterdir()}
    assert any(name.startswith("libtinfo.so") for name in names)
    assert not any(name.startswith(("libc.so", "ld-linux")) for name in names)
    assert subprocess.run([placed.program, "-c", "exit 7"], check=False).returncode == 7
    inode = placed.program.stat().st_ino
    assert place(prepared(single, tmp_path), single, host, tmp_path).sent == placed.sent
    assert placed.program.stat().st_ino == inode


def test_the_program_behind_a_launcher(host: Host, tmp_path: Path):
    """It is sent as without a launcher, which is the host's own."""
    mine = tmp_path / "memcached"
    shutil.copy("/bin/true", mine)
    item = variant("nice", "-n", "5", str(mine))
    placed = place(prepared(item, tmp_path), item, host, tmp_path)
    assert placed.sent is not None
    assert placed.arguments[2] == str(placed.sent / "launched" / "memcached")
    run = [placed.program, *placed.arguments]
    assert subprocess.run(run, check=False, timeout=60).returncode == 0
    described = placed.provenance["server"]
    assert described["launched"] == placed.arguments[2]
    assert (
        described["placed"] == f"{placed.program} of kv; starts {mine} of this machine, sent to kv"
    )


def test_another_content_is_another_build(host: Host, tmp_path: Path):
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    single = variant(str(mine))
    first = place(prepared(single, tmp_path), single, host, tmp_path)
    mine.write_text("#!/bin/sh\nexit 1\n")
    second = place(prepared(single, tmp_path), single, host, tmp_path)
    assert (first.sent, first.build_id) != (second.sent, second.build_id)
    assert first.env == {}, "a script needs no library"


def test_a_program_by_its_name_is_the_hosts_own(host: Host, tmp_path: Path):
    """Also one that goes by several names, as Redis' does: the link is what is started."""
    single = variant("sh", allocator={"preload": "glibc"})
    placed = place(prepared(single, tmp_path), single, host, tmp_path)
    assert placed.sent is None
    assert placed.program.name == "sh"
    assert placed.library is not None
    assert placed.env == {"LD_PRELOAD": str(placed.library)}
    described = placed.provenance["server"]
    assert len(described["sha256"]) == len(described["library_sha256"]) == 64
    assert described["placed"] == f"{placed.program} of kv; preloaded {placed.library} of kv"


def test_files_of_a_checkout_that_a_command_names_are_sent(host: Host, tmp_path: Path):
    """Also a directory, and the libraries of a module; other paths are the host's."""
    git = ["git", "-C", str(tmp_path / "repository"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git[:1], "init", "-q", str(tmp_path / "repository")], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    make = "mkdir etc; cp /bin/true srv; cp /bin/bash mod.so; echo 1 > srv.conf; echo 2 > etc/a; ln -s a etc/b"
    words = ["srv.conf", "--load=./mod.so", "none.conf", "/etc/x.conf", "{port}"]
    item = Variant.model_validate(
        {
            "name": "v",
            "env": {"PATHS": "/opt:./etc", "LD_LIBRARY_PATH": "etc"},
            "server": {
                "git": str(tmp_path / "repository"),
                "command": ["./srv", *words],
                "build": [["sh", "-c", make]],
            },
        }
    )
    placed = place(prepared(item, tmp_path), item, host, tmp_path)
    assert placed.sent is not None
    files = placed.sent / "files"
    assert placed.arguments == (f"{files}/srv.conf", f"--load={files}/mod.so", *words[2:])
    assert placed.env["PATHS"] == f"/opt:{files}/etc"
    assert placed.env["LD_LIBRARY_PATH"] == f"{placed.sent}/lib:{files}/etc"
    assert (files / "srv.conf").read_text() == "1\n"
    assert (files / "etc" / "b").read_text() == "2\n"
    assert list((placed.sent / "lib").glob("libtinfo.so*"))


def test_what_a_host_lacks_is_named(host: Host, tmp_path: Path):
    single = variant("no-such-server")
    with pytest.raises(UsageError, match="kv has no program no-such-server") as caught:
        place(prepared(single, tmp_path), single, host, tmp_path)
    assert "path of a program of this machine" in (caught.value.hint or "")


def test_the_library_of_this_machine_is_preferred():
    assert library_in(CACHE, "glibc") == "/lib/x86_64-linux-gnu/libc.so.6"
    assert library_in(CACHE, "jemalloc") == "/usr/lib/libjemalloc.so.2"
    assert library_in(CACHE, "mimalloc") is None


def test_a_script_needs_no_libraries(tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert needed_libraries(script) == []
