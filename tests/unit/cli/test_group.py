"""The group: help, names, errors and exit codes."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perfrunner import __version__
from perfrunner.cli.group import COMMANDS, GROUPS, main
from perfrunner.errors import BuildError, HostError, SpecError, UsageError
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[3]


def test_help_lists_the_commands_and_exit_codes(cli):
    text = cli("-h").stdout
    for name in ("run", "build", "validate", "plan", "list", "show", "clean"):
        assert f"\n  {name} " in text
    assert "130 interrupted" in text


def test_help_lists_each_command_once_under_its_heading(cli):
    lines = cli("-h").stdout.splitlines()
    headings = [line.removesuffix(":") for line in lines if line.removesuffix(":") in GROUPS]
    assert headings == ["Measure", "Specs", "Results", "Hosts", "Automation"]
    listed = lines[lines.index("Measure:") :]
    shown = [line.split()[0] for line in listed if line.startswith("  ") and line.split()]
    assert [name for name in shown if name in COMMANDS] == [*COMMANDS]
    assert [name for names in GROUPS.values() for name in names] == [*COMMANDS]


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in ("report", "compare")])
def test_every_command_has_help_with_an_example(cli, name):
    text = cli(name, "-h").stdout
    assert f"perfrunner {name}" in text
    assert "Example" in text


def test_version(cli):
    assert cli("--version").stdout == f"perfrunner, version {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("valdate", "validate"), ("lst", "list")]
)
def test_a_mistyped_command_gets_the_nearest_name(cli, typed, meant):
    assert f"No such command '{typed}'. Did you mean {meant}?" in cli(typed, code=2).stderr


def test_a_name_that_is_near_nothing_lists_all(cli):
    assert "Known: run, ab, aa" in cli("xyzzy", code=2).stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(SpecError("x"), 2), (UsageError("x"), 2), (BuildError("x"), 3), (HostError("x"), 3)],
)
def test_errors_of_the_tool_have_their_exit_codes(cli, monkeypatch, error, code):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("perfrunner.spec.loader.load_spec", fail)
    assert "error: x" in cli("plan", "spec.yaml", code=code).stderr


def test_a_hint_follows_the_error(cli, monkeypatch):
    def fail(*_, **__):
        raise BuildError("no compiler", "apt-get install g++")

    monkeypatch.setattr("perfrunner.spec.loader.load_spec", fail)
    assert (
        cli("plan", "spec.yaml", code=3).stderr == "error: no compiler\nhint: apt-get install g++\n"
    )


def test_ctrl_c_is_130(cli, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("perfrunner.spec.loader.load_spec", interrupt)
    assert "interrupted" in cli("plan", "spec.yaml", code=130).stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "temporarily"),
        (OSError(errno.EMFILE, "Too many open files", "/x"), "Too many open files"),
        (RuntimeError("can't start new thread"), "thread"),
        (MemoryError(), "memory"),
        (OSError(errno.ENOLCK, "No locks available", "/srv/lock"), "/srv/lock cannot be locked"),
    ],
    ids=["processes", "files", "threads", "memory", "locks"],
)
def test_limits_of_the_user_are_no_defects(cli, monkeypatch, error, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("perfrunner.spec.loader.load_spec", fail)
    stderr = cli("plan", "spec.yaml", code=3).stderr
    assert "Traceback" not in stderr
    assert message in stderr
    assert "\nhint: " in stderr


def test_a_command_has_no_threads_for_each_cpu():
    """A limit of processes counts them, and ended the command with SIGINT."""
    count = "import numpy.linalg; print(len(os.listdir('/proc/self/task')))"
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    script = (
        f"import os\nfrom perfrunner.cli import main\nmain.make_context('x', ['list'])\n{count}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout == "1\n"


# A command whose build never ends. It writes the build's pid when it reads from it.
BUILDS = """
import os, sys
import perfrunner.spec.loader
from perfrunner.build.tools import run_logged
from perfrunner.cli import main
def build(*_, **__):
    place = sys.argv[1]
    def begun(pid):
        with open(place + "/pid.part", "w") as file:
            file.write(pid)
        os.rename(file.name, place + "/pid")
    with open(place + "/log", "w") as log:
        command = ["sh", "-c", "echo $$; exec sleep 1000"]
        run_logged(command, what="it", log=log, env={"PATH": "/usr/bin:/bin"}, progress=begun)
perfrunner.spec.loader.load_spec = build
main(["plan", "spec.yaml"])
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_command_that_is_ended_ends_what_it_started(cli, signum):
    heard = ["env", "--default-signal=HUP"]  # nohup may have started the tests
    command = [*heard, sys.executable, "-c", BUILDS, str(cli.directory)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=cli.directory, env=env, stderr=subprocess.PIPE)
    written = cli.directory / "pid"
    until(written.exists, "the build runs")
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    build = Path("/proc") / written.read_text()
    left = build.exists()
    if left:
        os.kill(int(build.name), signal.SIGKILL)
    assert (process.returncode, stderr, left) == (130, b"interrupted\n", False)


def test_a_defect_keeps_its_traceback(cli, monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("perfrunner.spec.loader.load_spec", crash)
    output = cli("plan", "spec.yaml", code=3).stderr  # 1 is a verdict's
    assert "Traceback" in output
    assert output.endswith("ZeroDivisionError\n")


def test_a_module_that_is_missing_is_no_verdict(cli, monkeypatch):
    monkeypatch.setitem(COMMANDS, "plan", ("perfrunner.spec.broken", "x"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert "ModuleNotFoundError" in cli("plan", code=3).stderr


def test_the_group_is_the_console_script():
    assert main.name == "main"


@pytest.mark.parametrize(
    ("redirection", "status", "output"),
    [
        (">/dev/full", 3, "error: cannot write the result to stdout: No space left on device"),
        (">&-", 0, ""),
        ("| true", 0, ""),
    ],
    ids=["full", "closed", "nobody reads"],
)
def test_a_stdout_that_takes_nothing(cli, redirection, status, output):
    """Exit code 1 is a verdict's."""
    command = f"{shlex.quote(sys.executable)} -m perfrunner validate spec.yaml"
    line = f"{command} {redirection}"
    if redirection == "| true":  # the reader has gone before anything is written
        line = f"{{ sleep 0.2; {command}; echo $? >code; }} | true; exit $(cat code)"
    done = subprocess.run(
        ["bash", "-c", line], cwd=cli.directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[:1]) == (status, [output] if output else [])


def test_help_loads_what_it_needs_only():
    """One process asks the program and all commands for help; each takes less than a tenth of a second of CPU so."""
    code = (
        "import sys; from click.testing import CliRunner; from perfrunner.cli import main;"
        "from perfrunner.cli.group import COMMANDS;"
        "ask = lambda *words: CliRunner().invoke(main, [*words, '--help'], catch_exceptions=False).exit_code;"
        "assert ask() == 0;"
        "print({'pydantic', 'numpy', 'fabric', 'sqlalchemy', 'rich'} & set(sys.modules));"
        "assert [ask(name) for name in COMMANDS] == [0] * len(COMMANDS);"
        "print({'scipy', 'numpy', 'matplotlib', 'fabric', 'sqlalchemy', 'paramiko', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "set()\nset()\n"), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_line_of_help_is_of_a_command(name):
    assert main.get_command(click.Context(main), name) is not None
