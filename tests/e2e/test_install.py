"""Installing packages with scripts/lib/install.sh, for real, on fresh Debian systems in a chroot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fakes import ROOT

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(3600)]

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
USER, SUDOER = 1000, 1001
# cron stands for a service that the machine had before.
INCLUDED = "systemd,cron,sudo"
INSTALL = "set -euo pipefail; . /checkout/scripts/lib/install.sh; need_packages"


@dataclass(frozen=True)
class System:
    """A Debian system in a directory. Commands in it have a process namespace of their own."""

    root: Path

    def run(self, script: str, user: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a script as `user`. Its processes end with it."""
        argv = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        argv += ["chroot", f"--userspec={user}:{user}", "--groups=", str(self.root)]
        argv += ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        return subprocess.run(
            [*argv, "bash", "-c", script],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=3000,
        )  # fmt: skip

    def enabled(self) -> set[str]:
        """Return the links that make a service start with the machine: systemd's, and those of init scripts."""
        etc = self.root / "etc"
        links = [*etc.glob("systemd/**/*"), *etc.glob("rc?.d/S*")]
        return {str(path.relative_to(etc)) for path in links if path.is_symlink()}


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("mmdebstrap") is None or not SOURCES.exists():
        pytest.skip(f"needs mmdebstrap and {SOURCES}")
    mirror = re.search(r"^URIs: (http\S+/debian)$", SOURCES.read_text(), re.MULTILINE)
    assert mirror is not None
    root = tmp_path_factory.mktemp(request.param) / "root"
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={INCLUDED}", "--dpkgopt=force-unsafe-io",
         request.param, root, mirror[1]],
        check=True,
    )  # fmt: skip
    shutil.copytree(ROOT / "scripts", root / "checkout" / "scripts", symlinks=True)
    with (root / "etc" / "passwd").open("a") as passwd:
        passwd.write(f"user:*:{USER}:{USER}::/:/bin/sh\nsudoer:*:{SUDOER}:{SUDOER}::/:/bin/sh\n")
    (root / "etc" / "sudoers.d" / "sudoer").write_text("sudoer ALL=(ALL) NOPASSWD: ALL\n")
    (root / "checkout").chmod(0o777)
    yield System(root)
    shutil.rmtree(root)


def test_services_are_neither_started_nor_enabled(system: System) -> None:
    before = system.enabled()
    assert any("cron" in link for link in before)
    policy = system.root / "usr" / "sbin" / "policy-rc.d"
    there = policy.exists()
    done = system.run(f"{INSTALL} servers containers; cat /proc/[0-9]*/comm")
    assert done.returncode == 0, (
        done.stderr + (system.root / "checkout/build/packages.log").read_text()[-3000:]
    )
    assert {"sshd", "memcached", "redis-server", "postgres"}.isdisjoint(done.stdout.split())
    assert (system.root / "usr/sbin/sshd").exists()
    assert (system.root / "usr/bin/memcached").exists()
    assert list(system.root.glob("usr/lib/postgresql/*/bin/initdb"))
    assert not list(system.root.glob("etc/postgresql/*/main")), "no database cluster"
    assert system.enabled() == before
    assert policy.exists() == there

    # A later upgrade of the packages runs their scripts again, without ours.
    again = system.run("apt-get install --reinstall -y memcached openssh-server postgresql-common")
    assert again.returncode == 0, again.stderr
    assert system.enabled() == before

    # The links are what Debian makes of a service by itself.
    other = system.run("apt-get install -y --no-install-recommends anacron")
    assert other.returncode == 0, other.stderr
    assert any("anacron" in link for link in system.enabled() - before)


def test_without_root_and_sudo_it_names_the_packages(system: System) -> None:
    done = system.run(f"{INSTALL} python engine lab", user=USER)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    assert {"librocksdb-dev", "cmake", "python3-venv"} <= set(line.split())
    assert "util-linux" not in line.split(), "it is installed"


def test_with_sudo_it_installs(system: System) -> None:
    assert not (system.root / "usr/bin/strace").exists()
    done = system.run(
        "set -eu; . /checkout/scripts/lib/install.sh; install_log=/tmp/install.log; "
        "packages_of() { echo strace; }; need_packages tests",
        user=SUDOER,
    )
    assert done.returncode == 0, done.stderr
    assert (system.root / "usr/bin/strace").exists()
