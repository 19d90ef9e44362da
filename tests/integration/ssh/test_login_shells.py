"""Commands on hosts whose login shell and start files are not what one expects."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest
from sshd import Account, raised_sshd

from perfrunner.errors import HostError
from perfrunner.hosts import open_host

pytestmark = pytest.mark.integration

# They print, ask, leave the directory, and set what programs inherit: umask, locale, search paths, ignored signals.
BOURNE = """
echo "Welcome, $USER"; printf 'no newline' >&2; printf 'no newline'
set -e; set -u; umask 077; cd /; trap '' USR1
export LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 LANGUAGE=de CDPATH=/ IFS=x PATH=/nowhere HISTFILE=/dev/null
"""
CSH = """
echo "Welcome, $USER"
umask 077
cd /
setenv LANG de_DE.UTF-8
setenv LC_ALL de_DE.UTF-8
setenv PATH /nowhere
alias cd 'cd \\!*; echo $cwd'
set noclobber
set echo
"""
FISH = """
echo "Welcome, $USER"; printf 'no newline' >&2
umask 077; cd /
set -gx LANG de_DE.UTF-8; set -gx LC_ALL de_DE.UTF-8; set -gx PATH /nowhere
function cat; end
"""
ZSH = """
setopt err_return sh_word_split ksh_arrays magic_equal_subst rc_quotes csh_junkie_history xtrace no_clobber
setopt bang_hist no_rcs extended_glob null_glob glob_subst csh_null_glob posix_builtins
alias -g sh=nowhere; alias env=nowhere; TRAPEXIT() { echo bye }
"""
ASKS = "read -r -t 0.01 answer\n"  # eats what stands in standard input
SHELLS = {
    "/bin/bash": {".bashrc": ASKS + BOURNE},
    "/bin/sh": {".profile": BOURNE},
    "/bin/bsd-csh": {".cshrc": CSH},
    "/usr/bin/tcsh": {".tcshrc": CSH},
    "/usr/bin/zsh": {".zshenv": BOURNE + ZSH, ".zshrc": "exit 1\n"},
    "/usr/bin/fish": {".config/fish/config.fish": FISH},
}


def account(tmp_path: Path, shell: str, user: str = "ann", **files: str) -> Account:
    if not Path(shell).exists():
        pytest.fail(f"needs {shell}: scripts/test installs it")
    home = tmp_path / "my home"
    home.mkdir()
    for name, text in (SHELLS.get(shell, {}) | files).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return Account(user, home, shell)


def tree(tmp_path: Path) -> Path:
    artifact = tmp_path / "artifact"
    (artifact / "bin").mkdir(parents=True)
    program = artifact / "bin" / "program"
    program.write_text("#!/bin/sh\necho works; exec sleep 3600\n")
    program.chmod(0o755)
    return artifact


@pytest.mark.parametrize("shell", SHELLS)
def test_a_run_does_not_depend_on_the_login_shell(tmp_path: Path, shell: str) -> None:
    banner = tmp_path / "banner"
    banner.write_text("Authorized use only\n")
    with (
        raised_sshd(
            tmp_path / "sshd", account=account(tmp_path, shell), Banner=str(banner)
        ) as sshd,
        open_host(
            sshd.host_spec(
                Path("~/work dir".replace(" ", "_")),
            ),
            "ssh",
            run_id="r",
        ) as host,
    ):
        assert host.work_dir == f"{tmp_path}/my home/work_dir"
        words = ["it's", 'a "b"', "c\nd", "!e", "$HOME", "\\", "é", ""]
        echoed = host.transport.run(["printf", "%s|", *words])
        assert (echoed.stdout, echoed.stderr) == ("|".join([*words, ""]), "")
        host.lock()
        assert host.locked
        assert "hostname" in host.facts()
        host.transport.put_bytes(b"x" * 300_000, "data", mode=0o644)
        assert (Path(host.work_dir) / "data").read_bytes() == b"x" * 300_000
        path = host.deploy(tree(tmp_path), "build-1")
        assert stat.S_IMODE(Path(path, "bin").stat().st_mode) == 0o755, "whatever the umask"
        host.start([f"{path}/bin/program"], name="p", log_stdout="out", log_stderr="err")
        host.transport.get_file("out", tmp_path / "out")
        (swept,) = host.sweep(grace_s=60)
        assert not swept.result.killed
        assert host.transport.run(["ls", "absent"], check=False).stderr.endswith(
            "No such file or directory\n"
        )
        with pytest.raises(HostError, match="No such file"):
            host.transport.get_file("absent", tmp_path / "absent")


def test_a_long_command_passes_a_shell_of_short_words(tmp_path: Path) -> None:
    with (
        raised_sshd(tmp_path / "sshd", account=account(tmp_path, "/bin/bsd-csh")) as sshd,
        open_host(sshd.host_spec(tmp_path / "work"), "ssh") as host,
    ):
        word = "é" * 15_000
        assert host.transport.run(["printf", "%s", word]).stdout == word


@pytest.mark.parametrize(
    ("shell", "output"),
    [("/usr/sbin/nologin", "not available"), ("/bin/false", "it prints nothing")],
)
def test_an_account_without_a_shell_is_named(tmp_path: Path, shell: str, output: str) -> None:
    with raised_sshd(tmp_path / "sshd", account=account(tmp_path, shell)) as sshd:
        with pytest.raises(HostError, match="login shell does not run commands") as caught:
            open_host(sshd.host_spec(tmp_path / "work"), "ssh")
        assert output in caught.value.message


def test_start_files_that_end_the_shell_are_named(tmp_path: Path) -> None:
    files = {".bashrc": "echo maintenance tonight; exit 3\n"}
    with raised_sshd(tmp_path / "sshd", account=account(tmp_path, "/bin/bash", **files)) as sshd:
        with pytest.raises(HostError, match=r"status 3\): maintenance tonight") as caught:
            open_host(sshd.host_spec(tmp_path / "work"), "ssh")
        assert "start files" in (caught.value.hint or "")


def test_a_shell_that_may_not_start_a_process_says_which_limit_to_raise(tmp_path: Path) -> None:
    files = {".bashrc": "echo 'sh: 0: Cannot fork' >&2; exit 0\n"}
    with raised_sshd(tmp_path / "sshd", account=account(tmp_path, "/bin/bash", **files)) as sshd:
        with pytest.raises(HostError, match="Cannot fork") as caught:
            open_host(sshd.host_spec(tmp_path / "work"), "ssh")
        assert "raise the user's limits" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("echo hello; exec cat", "does not start a command within 2 s: hello"),
        ("read answer", "does not start a command within 2 s: it prints nothing"),
        ("kill -STOP $$", "does not start a command within 2 s"),
        ("exec 2>&1", "standard error does not arrive"),
        ("exec </dev/null", "standard input is closed"),
        ("sleep 600 &", "has ended, and its output stays open"),
    ],
)
def test_start_files_that_hold_or_redirect_the_shell_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, output: str
) -> None:
    monkeypatch.setattr("perfrunner.hosts.ssh.SHELL_WAIT_S", 2.0)
    files = {".bashrc": f"{text}\n"}
    with raised_sshd(tmp_path / "sshd", account=account(tmp_path, "/bin/bash", **files)) as sshd:
        with pytest.raises(HostError, match=output) as caught:
            open_host(sshd.host_spec(tmp_path / "work"), "ssh")
        assert "start files" in (caught.value.hint or "")


@pytest.mark.parametrize("user", ["jdoe@corp.example.com", "Jenkins", "CORP\\jdoe", "j.doe$"])
def test_user_names_of_directories(tmp_path: Path, user: str) -> None:
    with (
        raised_sshd(tmp_path / "sshd", account=account(tmp_path, "/bin/sh", user)) as sshd,
        open_host(sshd.host_spec(tmp_path / "work"), "ssh") as host,
    ):
        assert host.transport.run(["true"]).exit == 0


def test_commands_end_with_their_channel_in_every_shell(tmp_path: Path) -> None:
    from perfrunner.hosts import CommandTimeout
    from tests.support.waiting import until

    for shell in SHELLS:
        work = tmp_path / Path(shell).name
        work.mkdir()
        with (
            raised_sshd(work / "sshd", account=account(work, shell)) as sshd,
            open_host(sshd.host_spec(work / "work"), "ssh") as host,
        ):
            script = f"echo $$ >{work}/pid.new && mv {work}/pid.new {work}/pid; exec sleep 3600"
            with pytest.raises(CommandTimeout):
                host.transport.run(["sh", "-c", script], timeout=2)
            pid = (work / "pid").read_text().strip()
            until(lambda pid=pid: not Path("/proc", pid).exists(), f"the command of {shell} ends")
        shutil.rmtree(work)
