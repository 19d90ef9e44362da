"""The group: help, names, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perfrunner import __version__
from perfrunner.cli.group import COMMANDS, main
from perfrunner.errors import BuildError, HostError, SpecError, UsageError


def test_help_lists_the_commands_and_exit_codes(cli):
    text = cli("-h").stdout
    for name in ("run", "build", "validate", "plan", "list", "show", "clean"):
        assert f"\n  {name} " in text
    assert "130 interrupted" in text


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
    assert "Known: run, ab, build" in cli("xyzzy", code=2).stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(SpecError("x"), 2), (UsageError("x"), 2), (BuildError("x"), 3), (HostError("x"), 3)],
)
def test_errors_of_the_tool_have_their_exit_codes(cli, monkeypatch, error, code):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("perfrunner.cli.options.load_spec", fail)
    assert "error: x" in cli("plan", "spec.yaml", code=code).stderr


def test_a_hint_follows_the_error(cli, monkeypatch):
    def fail(*_, **__):
        raise BuildError("no compiler", "apt-get install g++")

    monkeypatch.setattr("perfrunner.cli.options.load_spec", fail)
    assert (
        cli("plan", "spec.yaml", code=3).stderr == "error: no compiler\nhint: apt-get install g++\n"
    )


def test_ctrl_c_is_130(cli, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("perfrunner.cli.options.load_spec", interrupt)
    assert "interrupted" in cli("plan", "spec.yaml", code=130).stderr


def test_a_defect_keeps_its_traceback(cli, monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("perfrunner.cli.options.load_spec", crash)
    with pytest.raises(ZeroDivisionError):
        cli("plan", "spec.yaml")


def test_help_loads_no_heavy_library():
    """`--help` and completion must be quick: this is what makes them slow."""
    code = (
        "import sys\nfrom perfrunner.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'scipy', 'matplotlib', 'fabric', 'sqlalchemy', 'paramiko'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_group_is_the_console_script():
    assert main.name == "main"
