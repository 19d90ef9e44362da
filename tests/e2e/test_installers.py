"""`pipx install` and `uv tool install` of the wheel and of a checkout, as docs/how-to/install.md says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfrunner import __version__
from tests.support.wheel import build_wheel

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(1800)]

COMMANDS = {"pipx": ("pipx", "install"), "uv": ("uv", "tool", "install")}
# The user's settings of the package registry and of its certificates.
REGISTRY = (
    "PIP_",
    "UV_",
    "SSL_CERT_",
    "REQUESTS_CA_",
    "HTTP_",
    "HTTPS_",
    "http_",
    "https_",
    "no_proxy",
)


@dataclass(frozen=True)
class Installers:
    """An environment with pipx and uv, and what they install: a wheel and the copy of the checkout behind it."""

    directory: Path
    wheel: Path
    checkout: Path

    def run(self, home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command for a user whose home directory is `home`; all that it writes stays there."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(REGISTRY)}
        environment = {
            **kept, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
            "PATH": f"{home}/.local/bin:{self.directory}/bin:/usr/local/bin:/usr/bin:/bin",
            "PIPX_DEFAULT_PYTHON": sys.executable, "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never",
        }  # fmt: skip
        return subprocess.run(
            [str(word) for word in words], cwd=home, env=environment, timeout=1200, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, start_new_session=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Installers:
    directory = tmp_path_factory.mktemp("installers")
    venv.create(directory / "venv", with_pip=True)
    subprocess.run(
        [directory / "venv" / "bin" / "pip", "install", "--quiet", "pipx", "uv"], check=True, timeout=1200
    )  # fmt: skip
    wheel = build_wheel(directory / "wheel", mtime=1_700_000_000)
    return Installers(directory / "venv", wheel, directory / "wheel" / "checkout")


@pytest.mark.parametrize("tool", COMMANDS)
@pytest.mark.parametrize("extra", [False, True], ids=["checkout", "wheel with an extra"])
def test_the_command_is_installed_and_plans(
    installers: Installers, tmp_path: Path, tool: str, extra: bool
) -> None:
    what = f"{installers.wheel}[ssh]" if extra else str(installers.checkout)
    done = installers.run(tmp_path, *COMMANDS[tool], what)
    assert done.returncode == 0, done.stdout + done.stderr
    command = tmp_path / ".local" / "bin" / "perfrunner"
    assert command.exists()

    done = installers.run(tmp_path, "perfrunner", "--version")
    assert (done.returncode, done.stdout.split()[-1]) == (0, __version__), done.stderr
    assert installers.run(tmp_path, "perfrunner", "init", "specs").returncode == 0
    done = installers.run(tmp_path, "perfrunner", "plan", "specs/first.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 40

    program = "import perfrunner.paths as e, sys; print(sys.prefix, e.__file__)"
    done = installers.run(tmp_path, command.resolve().with_name("python"), "-c", program)
    assert done.stdout.count(str(tmp_path)) == 2, "the command of another environment"
    done = installers.run(tmp_path, command.resolve().with_name("python"), "-c", "import fabric")
    assert (done.returncode == 0) is extra, done.stderr
