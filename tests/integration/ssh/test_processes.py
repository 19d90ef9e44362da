"""What was begun on a host is followed, stopped, found again and swept away; every test runs on both transports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from workers import alive, begin, begin_shell, program_environ, until

from perfrunner.errors import HostError
from perfrunner.hosts import (
    CommandTimeout,
    ExitStatus,
    Host,
    open_host,
)

pytestmark = pytest.mark.integration

FOREVER_S = 3600  # longer than the time-out of a test


class TestFollow:
    def test_lines_come_while_it_runs(self, host: Host, tmp_path: Path) -> None:
        """It goes on only when its first line was heard."""
        heard: list[str] = []
        go = tmp_path / "go"

        def hear(line: str) -> None:
            heard.append(line)
            go.touch()

        script = 'echo one; until [ -e "$1" ]; do sleep 0.02; done; printf "two\\nrest"; echo x >&2; exit 3'
        done = host.transport.follow(["sh", "-c", script, "sh", str(go)], hear, timeout=FOREVER_S)
        assert (heard, done.exit, done.stderr) == (["one", "two", "rest"], 3, "x\n")


class TestProcesses:
    def test_lives_then_stops_at_term(self, host: Host) -> None:
        process = begin(host, "sleep", "60", env={"MARK": "a b"}, cwd="logs")
        assert process.poll() is None
        assert "MARK=a b" in program_environ(process, "sleep")
        assert os.getpgid(process.pid) == process.pid
        result = process.stop(FOREVER_S)  # it does not wait for the whole grace period
        assert (result.status, result.killed, result.orphans) == (ExitStatus(signal=15), False, ())
        assert not alive(process.pid)
        assert not list(Path(host.work_dir, "registry").iterdir())
        assert process.stop(FOREVER_S).status == ExitStatus(signal=15), "stopping twice is harmless"

    def test_output_goes_to_the_logs(self, host: Host) -> None:
        process = begin_shell(host, "echo out; echo err >&2")
        assert process.wait(FOREVER_S).ok
        assert host.transport.read_text("logs/out") == "out\n"
        assert host.transport.read_text("logs/err") == "err\n"

    @pytest.mark.parametrize(
        ("script", "status"),
        [
            ("exit 0", ExitStatus(code=0)),
            ("exit 7", ExitStatus(code=7)),
            ("kill -KILL $$", ExitStatus(signal=9)),
            ("kill -SEGV $$", ExitStatus(signal=11)),
            ("exec /no/such/program", ExitStatus(code=127)),
        ],
    )
    def test_how_it_ended_is_known(self, host: Host, script: str, status: ExitStatus) -> None:
        process = begin_shell(host, script)
        assert process.wait(FOREVER_S) == status
        assert process.poll() == status

    def test_an_absent_program_ends_with_127(self, host: Host) -> None:
        process = begin(host, "/no/such/engine")
        assert process.wait(FOREVER_S) == ExitStatus(code=127)
        assert "No such file" in host.transport.read_text("logs/err")

    def test_term_immune_is_killed_with_its_children(self, host: Host, tmp_path: Path) -> None:
        script = f"trap '' TERM; sleep {FOREVER_S} & echo $! >{tmp_path}/child; while :; do sleep 1; done"
        process = begin_shell(host, script)
        until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text(), "child")
        result = process.stop(0.5)
        assert (result.status, result.killed) == (ExitStatus(signal=9), True)
        assert not alive(int((tmp_path / "child").read_text()))

    def test_a_clean_stop_gives_the_programs_own_status(self, host: Host) -> None:
        process = begin_shell(
            host, "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
        )
        until(lambda: host.transport.read_text("logs/out") == "up\n", "it is up")
        assert process.stop(FOREVER_S).status == ExitStatus(code=4)
        assert host.transport.read_text("logs/out") == "up\nbye\n"

    def test_a_group_whose_leader_is_gone_is_stopped(self, host: Host, tmp_path: Path) -> None:
        process = begin_shell(host, f"sleep 600 & echo $! >{tmp_path}/child")
        until(lambda: process.poll() is not None, "the leader ends")
        child = int((tmp_path / "child").read_text())
        assert alive(child)
        assert process.stop(FOREVER_S).orphans == ()
        assert not alive(child)

    def test_what_left_the_group_is_reported(self, host: Host, tmp_path: Path) -> None:
        process = begin_shell(
            host, f"setsid sh -c 'echo $$ >{tmp_path}/child; exec sleep 600' & sleep 600"
        )
        until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text(), "child")
        child = int((tmp_path / "child").read_text())
        try:
            result = process.stop(FOREVER_S)
            assert result.orphans == (child,)
            with pytest.raises(HostError, match=r"worker \(pid \d+, run run-1\) is still running"):
                begin(host, "true")
        finally:
            os.kill(child, signal.SIGKILL)
        until(lambda: not alive(child), "it ends")
        assert [swept.result.orphans for swept in host.sweep()] == [()]

    def test_one_process_of_a_name(self, host: Host) -> None:
        first = begin(host, "sleep", "60")
        with pytest.raises(
            HostError, match=rf"worker \(pid {first.pid}, run run-1\) is still running"
        ) as caught:
            begin(host, "sleep", "60")
        assert "--resume" in (caught.value.hint or "")
        first.stop(FOREVER_S)
        second = begin(host, "true")
        assert second.wait(FOREVER_S).ok

    def test_a_name_is_free_again_when_its_process_ended_by_itself(self, host: Host) -> None:
        assert begin_shell(host, "exit 3").wait(FOREVER_S) == ExitStatus(code=3)
        assert begin_shell(host, "exit 4").wait(FOREVER_S) == ExitStatus(code=4)

    def test_waiting_has_an_end(self, host: Host) -> None:
        process = begin(host, "sleep", "60")
        with pytest.raises(CommandTimeout, match=r"worker has not ended within 0\.2 s"):
            process.wait(0.2)
        assert process.poll() is None

    def test_signals_reach_the_group(self, host: Host) -> None:
        process = begin_shell(host, "trap 'exit 9' USR1; echo up; while :; do sleep 0.05; done")
        until(lambda: host.transport.read_text("logs/out") == "up\n", "it is up")
        assert process.signal(signal.SIGUSR1) is True
        assert process.wait(FOREVER_S) == ExitStatus(code=9)
        assert process.signal(signal.SIGUSR1) is False

    def test_interrupt_is_not_ignored(self, host: Host) -> None:
        """A shell's background jobs ignore SIGINT; what we start must not."""
        process = begin(
            host, sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"
        )
        until(lambda: host.transport.read_text("logs/out") == "up\n", "it is up")
        process.signal(signal.SIGINT)
        assert process.wait(FOREVER_S) in (
            ExitStatus(signal=2),
            ExitStatus(code=130),
            ExitStatus(code=1),
        )

    @pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "a/b", "x\n"])
    def test_odd_names_are_refused(self, host: Host, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            begin(host, "true", name=name)

    def test_a_log_that_cannot_be_opened(self, host: Host) -> None:
        host.transport.makedirs("logs/err")
        with pytest.raises(HostError, match="cannot start worker"):
            begin(host, "true")

    def test_another_process_with_the_same_pid_is_not_signalled(self, host: Host) -> None:
        process = begin(host, "sleep", "60")
        registry = Path(host.work_dir, "registry/worker.json")
        entry = registry.read_text()
        registry.write_text(json.dumps({**json.loads(entry), "start_time": 1}) + "\n")
        (stranger,) = host.processes()
        assert stranger.signal(signal.SIGTERM) is False
        registry.write_text(entry)
        assert alive(process.pid)
        assert process.stop(FOREVER_S).status == ExitStatus(signal=15)

    def test_a_process_of_before_the_restart_is_stale(self, host: Host) -> None:
        process = begin(host, "sleep", "60")
        registry = Path(host.work_dir, "registry/worker.json")
        entry = registry.read_text()
        before = {**json.loads(entry), "boot_id": "00000000-0000-0000-0000-000000000000"}
        registry.write_text(json.dumps(before) + "\n")
        (old,) = host.processes()
        assert old.poll() == ExitStatus()
        assert "without a recorded status" in str(old.poll())
        assert alive(process.pid)
        registry.write_text(entry)


class TestSweep:
    ORPHANING_PARENT = """
        import sys, time
        from perfrunner.hosts import open_host
        from perfrunner.spec.cluster import HostSpec
        host = open_host(HostSpec.model_validate_json(sys.argv[1]), sys.argv[2], name="node", run_id="dead-run")
        host.lock()
        host.start(["sleep", "600"], name="engine", log_stdout="logs/o", log_stderr="logs/e")
        print("up", flush=True)
        time.sleep(600)
    """

    def test_finds_what_a_killed_perfrunner_left(self, host: Host, request, tmp_path: Path) -> None:
        kind = request.node.callspec.params["host"]
        spec = request.getfixturevalue("sshd").host_spec(Path(host.work_dir))
        parent = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(self.ORPHANING_PARENT),
                spec.model_dump_json(),
                kind,
            ],
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        with pytest.raises(HostError, match=r"node.* is in use by run dead-run"):
            host.lock()
        parent.kill()
        parent.wait()
        parent.stdout.close()
        (left,) = host.processes()
        assert alive(left.pid)
        assert left.run_id == "dead-run"
        until(lambda: _can_lock(host), "the lock goes with its holder")
        assert host.sweep("another-run") == []
        assert alive(left.pid)
        (swept,) = host.sweep("dead-run", grace_s=FOREVER_S)
        assert swept.result.status == ExitStatus(signal=15)
        assert not alive(left.pid)
        assert host.processes() == []

    RUNNING_PARENT = """
        import sys
        from perfrunner.hosts import open_host
        from perfrunner.spec.cluster import HostSpec
        host = open_host(HostSpec.model_validate_json(sys.argv[1]), sys.argv[2], name="node")
        host.transport.run(["sh", "-c", "echo $$ >pid.new && mv pid.new pid; exec sleep 600"], cwd=".", timeout=600)
    """

    def test_a_command_ends_with_a_killed_perfrunner(self, host: Host, request) -> None:
        """Nothing would ever sweep it: it is in no process registry."""
        kind = request.node.callspec.params["host"]
        spec = request.getfixturevalue("sshd").host_spec(Path(host.work_dir))
        parent = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(self.RUNNING_PARENT),
                spec.model_dump_json(),
                kind,
            ]
        )
        pid_file = Path(host.work_dir, "pid")
        until(pid_file.exists, "the command runs")
        pid = int(pid_file.read_text())
        assert alive(pid)
        parent.kill()
        parent.wait()
        until(lambda: not alive(pid), "the command ends")

    def test_clears_stale_entries(self, host: Host) -> None:
        begin_shell(host, "exit 5").wait(FOREVER_S)
        Path(host.work_dir, "registry/nobody.lock").touch()
        (swept,) = host.sweep()
        assert swept.result.status == ExitStatus(code=5)
        host.processes()
        assert list(Path(host.work_dir, "registry").iterdir()) == []

    def test_a_handle_of_another_connection_is_as_good(self, host: Host) -> None:
        begin_shell(host, "trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done")
        until(lambda: host.transport.read_text("logs/out") == "up\n", "it is up")
        (again,) = host.processes()
        assert again.poll() is None
        assert again.stop(FOREVER_S).status == ExitStatus(code=6)


def _can_lock(host: Host) -> bool:
    try:
        host.lock()
    except HostError:
        return False
    return True


class TestLock:
    def test_one_run_at_a_time(self, host: Host, request, sshd) -> None:
        host.lock()
        assert host.locked
        for kind in ("local", "ssh"):
            spec = sshd.host_spec(Path(host.work_dir))
            with (
                open_host(spec, kind, name="other") as rival,
                pytest.raises(HostError, match="is in use by run run-1 of ") as caught,
            ):
                rival.lock()
            assert "host.lock" in (caught.value.hint or "")

    def test_it_is_given_up(self, host: Host, sshd) -> None:
        host.lock()
        host.close()
        with open_host(sshd.host_spec(Path(host.work_dir)), "local", name="other") as rival:
            until(lambda: _can_lock(rival), "the lock is free")
        assert not host.locked

    def test_it_is_free_as_soon_as_it_is_given_up(self, host: Host, sshd) -> None:
        """What follows at once (another run, or this one's next part) needs no patience."""
        with open_host(sshd.host_spec(Path(host.work_dir)), "ssh", name="other") as rival:
            for _ in range(10):
                host.lock()
                host.unlock()
                rival.lock()
                rival.unlock()
