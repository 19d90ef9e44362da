"""Both transports promise the same: every test here runs on each."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from workers import alive, begin, begin_shell, program_environ, until

from perfrunner.errors import HostError
from perfrunner.hosts import (
    CommandFailed,
    CommandTimeout,
    Host,
    open_host,
    scripts,
    transport,
)
from perfrunner.hosts.process import BASE_ENVIRONMENT, Raw
from perfrunner.spec.units import cpu_numbers

pytestmark = pytest.mark.integration


class TestRun:
    def test_returns_both_streams_and_the_status(self, host: Host) -> None:
        done = host.transport.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
        assert (done.exit, done.stdout, done.stderr) == (3, "out\n", "err\n")

    @pytest.mark.parametrize(
        "word",
        [
            "",
            "a b",
            "'",
            '"',
            "$HOME",
            "`id`",
            "a;b",
            "\\",
            "*",
            "~",
            "line\nbreak",
            "-n",
            "ü",
            "!x",
        ],
    )
    def test_arguments_arrive_as_they_are(self, host: Host, word: str) -> None:
        done = host.transport.run(["printf", "%s|", "first", word, "last"])
        assert done.stdout == f"first|{word}|last|"

    @pytest.mark.parametrize("value", ["x y", "'; echo gone", "$(id)", "", "a=b"])
    def test_environment_values_arrive_as_they_are(self, host: Host, value: str) -> None:
        done = host.transport.run(["printenv", "PERF_VALUE"], env={"PERF_VALUE": value})
        assert done.stdout == f"{value}\n"

    def test_nothing_of_the_login_or_the_shell_is_inherited(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
        monkeypatch.setenv("LD_PRELOAD", "")
        seen = host.transport.run(["env"], env={"A": "1"}).stdout.split()
        assert sorted(seen) == ["A=1", *(f"{k}={v}" for k, v in BASE_ENVIRONMENT.items())]
        process = begin(host, "sleep", "60", env={"A": "1"})
        assert sorted(program_environ(process, "sleep")) == sorted(seen)
        process.stop(1)

    @pytest.mark.parametrize("name", ["A B", "A=B", "", "1A", "A;id"])
    def test_odd_environment_names_are_refused(self, host: Host, name: str) -> None:
        with pytest.raises(ValueError, match="environment"):
            host.transport.run(["true"], env={name: "x"})

    def test_cwd_is_relative_to_the_work_directory(self, host: Host) -> None:
        assert host.transport.run(["pwd"], cwd="registry").stdout == f"{host.work_dir}/registry\n"

    def test_a_failed_check_carries_the_commands_own_words(self, host: Host) -> None:
        with pytest.raises(CommandFailed, match=r"node: cat ended with status 1.*No such file"):
            host.transport.run(["cat", "/no/such/file"])

    def test_an_absent_program_is_status_127(self, host: Host) -> None:
        assert host.transport.run(["no-such-program"], check=False).exit == 127

    def test_death_by_signal_is_128_and_the_signal(self, host: Host) -> None:
        done = host.transport.run(["sh", "-c", "kill -KILL $$"], check=False)
        assert done.exit == 128 + signal.SIGKILL

    def test_standard_input_is_empty(self, host: Host) -> None:
        assert host.transport.run(["cat"], timeout=300).stdout == ""

    def test_much_output_is_whole(self, host: Host) -> None:
        done = host.transport.run(["head", "-c", "16000000", "/dev/zero"])
        assert len(done.stdout) == 16_000_000

    def test_a_timeout_ends_the_command(self, host: Host, tmp_path: Path) -> None:
        script = f"echo $$ >{tmp_path}/pid; trap '' TERM; sleep 3600 & wait; sleep 3600"
        with pytest.raises(CommandTimeout, match="did not end within"):
            host.transport.run(["sh", "-c", script], timeout=0.5)
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "it began")
        pid = int((tmp_path / "pid").read_text())
        until(lambda: not alive(pid), "the timed-out command ends")

    def test_commands_of_several_threads_run_side_by_side(self, host: Host, tmp_path: Path) -> None:
        """Each ends only when all of them have begun."""
        script = 'touch "$1/$2"; until [ "$(ls "$1" | wc -l)" = 8 ]; do sleep 0.05; done'
        (tmp_path / "begun").mkdir()

        def run(number: int) -> int:
            words = ["sh", "-c", script, "sh", str(tmp_path / "begun"), str(number)]
            return host.transport.run(words, timeout=300).exit

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(run, range(8))) == [0] * 8


class TestFiles:
    def test_bytes_go_and_come_back(self, host: Host, tmp_path: Path) -> None:
        data = os.urandom(3_000_000)
        host.transport.put_bytes(data, "some/deep/file", mode=0o600)
        host.transport.get_file("some/deep/file", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == data
        written = Path(host.work_dir, "some/deep/file")
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        assert [p.name for p in written.parent.iterdir()] == ["file"], "no temporary file is left"

    @pytest.mark.parametrize("data", [b"", b"\0" * 81, b"x" * 79, "ü\n".encode()])
    def test_small_contents(self, host: Host, tmp_path: Path, data: bytes) -> None:
        host.transport.put_bytes(data, "f")
        host.transport.get_file("f", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == data

    def test_upload_is_skipped_when_the_host_has_it(self, host: Host, tmp_path: Path) -> None:
        local = tmp_path / "program"
        local.write_bytes(b"#!/bin/sh\n" + os.urandom(1000))
        local.chmod(0o755)
        assert host.transport.put_file(local, "program") is True
        remote = Path(host.work_dir, "program")
        before = remote.stat()
        assert host.transport.put_file(local, "program") is False
        assert remote.stat().st_ino == before.st_ino
        assert stat.S_IMODE(before.st_mode) == 0o755

    def test_same_size_and_second_but_other_content_is_sent(
        self, host: Host, tmp_path: Path
    ) -> None:
        local = tmp_path / "program"
        for content in (b"one", b"two"):
            local.write_bytes(content)
            os.utime(local, (1_000_000, 1_000_000))
            assert host.transport.put_file(local, "program") is True
            assert host.transport.read_text("program").encode() == content

    def test_a_lost_mode_is_put_right(self, host: Host, tmp_path: Path) -> None:
        local = tmp_path / "program"
        local.write_bytes(b"x")
        local.chmod(0o755)
        host.transport.put_file(local, "program")
        Path(host.work_dir, "program").chmod(0o600)
        assert host.transport.put_file(local, "program") is True
        assert stat.S_IMODE(Path(host.work_dir, "program").stat().st_mode) == 0o755

    def test_a_running_program_can_be_replaced(self, host: Host, tmp_path: Path) -> None:
        host.transport.put_file(Path("/bin/sleep"), "program")
        process = begin(host, f"{host.work_dir}/program", "60")
        until(lambda: "program" in str(Path(f"/proc/{process.pid}/exe").readlink()), "exec")
        host.transport.put_bytes(b"new", "program")
        assert process.poll() is None

    def test_a_damaged_upload_leaves_the_old_file(self, host: Host) -> None:
        host.transport.put_bytes(b"old", "f")
        with pytest.raises(HostError, match="arrived incomplete"):
            host.transport._put(iter([b"sho"]), "f", "0" * 64, 0o644)
        assert host.transport.read_text("f") == "old"
        assert [p.name for p in Path(host.work_dir).glob("f*")] == ["f"]

    def test_a_full_disk_is_named(self, host: Host) -> None:
        with pytest.raises(HostError, match="No space left") as caught:
            host.transport._script("cat >/dev/full", source=iter([b"x" * 100]))
        assert caught.value.hint == "free some disk space on the host"

    def test_a_quota_that_is_used_up_is_a_full_disk(self, host: Host) -> None:
        with pytest.raises(HostError, match="quota exceeded") as caught:
            host.transport._script("echo 'sh: write error: Disk quota exceeded' >&2; exit 74")
        assert caught.value.hint == "free some disk space on the host"

    def test_an_absent_file_is_an_error_and_leaves_nothing(
        self, host: Host, tmp_path: Path
    ) -> None:
        with pytest.raises(HostError, match="No such file"):
            host.transport.get_file("absent", tmp_path / "got")
        with pytest.raises(HostError, match="No such file"):
            host.transport.read_text("absent")
        assert not host.transport.exists("absent")
        assert not list(tmp_path.glob("got*"))

    def test_a_growing_file_is_fetched_as_it_is(self, host: Host, tmp_path: Path) -> None:
        process = begin_shell(host, f"while :; do echo line; done >{host.work_dir}/growing")
        growing = Path(host.work_dir, "growing")
        until(lambda: growing.exists() and growing.stat().st_size > 10_000, "it grows")
        for _ in range(3):
            host.transport.get_file("growing", tmp_path / "got")
            assert (tmp_path / "got").read_bytes().startswith(b"line\nline\n")
        process.stop(1)


class TestRemoveTree:
    def test_removes_what_is_inside(self, host: Host) -> None:
        host.transport.put_bytes(b"x", "data/a/b")
        host.transport.remove_tree("data")
        host.transport.remove_tree("data")  # absent is fine
        assert not host.transport.exists("data")

    @pytest.mark.parametrize(
        "path", [".", "..", "../other", "/", "data/../..", "data/../../other/x"]
    )
    def test_refuses_what_is_outside(self, host: Host, tmp_path: Path, path: str) -> None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "x").write_text("precious")
        host.transport.put_bytes(b"x", "data/a")
        with pytest.raises(HostError, match="is not inside the work directory"):
            host.transport.remove_tree(path)
        assert (tmp_path / "other" / "x").read_text() == "precious"
        assert host.transport.exists("data/a")

    def test_refuses_to_follow_a_link_out(self, host: Host, tmp_path: Path) -> None:
        (tmp_path / "other" / "sub").mkdir(parents=True)
        Path(host.work_dir, "link").symlink_to(tmp_path / "other")
        for path in ("link", "link/sub"):
            with pytest.raises(HostError, match="is not inside"):
                host.transport.remove_tree(path)
        assert (tmp_path / "other" / "sub").is_dir()


class TestDeploy:
    @pytest.fixture
    def artifact(self, tmp_path: Path) -> Path:
        directory = tmp_path / "artifact"
        (directory / "bin").mkdir(parents=True)
        (directory / "empty").mkdir()
        (directory / "bin" / "tool").write_text("#!/bin/sh\necho it runs\n")
        (directory / "bin" / "tool").chmod(0o755)
        (directory / "bin" / "data").write_bytes(os.urandom(2_000_000))
        return directory

    def test_once_per_build(self, host: Host, artifact: Path) -> None:
        path = host.deploy(artifact, "b1")
        assert path == f"{host.work_dir}/artifacts/b1"
        assert host.transport.run([f"{path}/bin/tool"]).stdout == "it runs\n"
        inode = Path(path).stat().st_ino
        assert host.transport.put_tree(artifact, path) is False
        assert Path(path).stat().st_ino == inode
        assert [p.name for p in Path(path).parent.iterdir()] == ["b1"]

    def test_one_that_is_there_costs_one_exchange_and_is_marked_as_used(
        self, host: Host, artifact: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = host.deploy(artifact, "b1")
        os.utime(path, (1, 1))
        exchanges = []
        execute = host.transport._execute

        def counted(argv: Sequence[str], **kwargs: Any) -> Raw:
            exchanges.append(argv)
            return execute(argv, **kwargs)

        monkeypatch.setattr(host.transport, "_execute", counted)
        monkeypatch.setattr(transport, "pack_tree", lambda *_: pytest.fail("packed"))
        host._deployed.clear()
        host.deploy(artifact, "b1")
        assert len(exchanges) == 1
        (there,) = host.transport.artifacts()
        assert there[1] > 1, "it is marked as used"

    @pytest.mark.parametrize("damage", ["truncate", "alter", "remove", "remove-list"])
    def test_a_damaged_copy_is_replaced(self, host: Host, artifact: Path, damage: str) -> None:
        path = Path(host.deploy(artifact, "b1"))
        if damage == "truncate":
            os.truncate(path / "bin" / "data", 10)
        elif damage == "alter":
            with (path / "bin" / "data").open("r+b") as file:
                file.write(bytes(1000))
        else:
            (path / ("bin/data" if damage == "remove" else ".sha256sums")).unlink()
        assert host.transport.put_tree(artifact, str(path)) is True
        assert (path / "bin" / "data").read_bytes() == (artifact / "bin" / "data").read_bytes()

    def test_what_a_cut_upload_left_is_cleared(self, host: Host, artifact: Path) -> None:
        (Path(host.work_dir) / "artifacts" / "b1.part.123").mkdir()
        host.deploy(artifact, "b1")
        assert [p.name for p in Path(host.work_dir, "artifacts").iterdir()] == ["b1"]

    def test_a_damaged_stream_is_refused(self, host: Host, artifact: Path, monkeypatch) -> None:
        monkeypatch.setattr(
            transport, "pack_tree", lambda directory, out: out.write(b"no tar") and "0" * 64
        )
        with pytest.raises(HostError):
            host.deploy(artifact, "b1")
        assert not list(Path(host.work_dir, "artifacts").iterdir())

    def test_a_tree_comes_back_as_it_was(self, host: Host, artifact: Path, tmp_path: Path) -> None:
        (artifact / "bin" / "again").hardlink_to(artifact / "bin" / "tool")
        back = tmp_path / "back"
        back.mkdir()
        host.transport.get_tree(str(artifact), back)
        files = [p for p in sorted(artifact.rglob("*")) if p.is_file()]
        for path in files:
            copy = back / path.relative_to(artifact)
            assert copy.read_bytes() == path.read_bytes()
            assert copy.stat().st_mode == path.stat().st_mode
        assert sum(p.is_file() for p in back.rglob("*")) == len(files)
        assert (back / "empty").is_dir()

    def test_a_tree_that_is_not_there(self, host: Host, tmp_path: Path) -> None:
        (tmp_path / "back").mkdir()
        with pytest.raises(HostError, match="no-such"):
            host.transport.get_tree("no-such", tmp_path / "back")


def test_facts(host: Host) -> None:
    facts = host.facts()
    assert facts["kernel"] == os.uname().release
    assert facts["cpus"] == os.cpu_count()
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["thp_enabled"] in ("always", "madvise", "never")
    assert isinstance(facts["memory_bytes"], int)
    assert isinstance(facts["load_average"], float)
    assert facts["l3_domains"]
    assert cpu_numbers(facts["cpus_allowed"]) == tuple(sorted(os.sched_getaffinity(0)))
    swaps = Path("/proc/swaps").read_text().splitlines()[1:]
    assert (facts["swap_bytes"] > 0) is bool(swaps)
    if results := re.search(
        r"^microcode\s*: (\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE
    ):
        assert facts["microcode"] == results[1]


def test_a_host_without_the_programs_of_a_base_system(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some images have no tar: that is known before anything is built."""
    few = tmp_path / "bin"
    few.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in ("tar", "findmnt"):
            (few / program.name).symlink_to(program)
    opened = scripts.OPEN_WORK_DIR
    monkeypatch.setattr(scripts, "OPEN_WORK_DIR", f"PATH={few}\n{opened}", raising=False)
    with pytest.raises(HostError, match="without these programs: findmnt tar") as caught:
        host.transport.open_work_dir(f"{tmp_path}/another")
    assert "util-linux" in (caught.value.hint or "")
    assert not (tmp_path / "another").exists()


def test_a_work_dir_that_cannot_be_made(sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for kind in ("local", "ssh"):
        with pytest.raises(HostError, match=r"cannot use the work directory .*: .*file"):
            open_host(sshd.host_spec(tmp_path / "file" / "work"), kind)
