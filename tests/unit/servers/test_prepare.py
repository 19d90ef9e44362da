"""The checkout of a server's repository: independent of the user's hooks and line ends; submodules are named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perfrunner.errors import BuildError
from perfrunner.servers.prepare import PreparedServer, prepare
from perfrunner.spec.server import ServerSpec
from perfrunner.spec.variant import Variant


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the program `srv`, and a user with settings of git that change checkouts."""
    home, place = tmp_path / "home", tmp_path / "repository"
    hook = home / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nhooksPath = {hook.parent}\nautocrlf = true\n[user]\nname = a\nemail = a@b\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    git(tmp_path, "init", "-q", "-b", "main", str(place))
    (place / "srv").write_text("#!/bin/sh\nexec memcached\n")
    (place / "srv").chmod(0o755)
    git(place, "add", ".")
    git(place, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "one")
    return place


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True, timeout=300)


def prepared(repository: Path, *build: tuple[str, ...]) -> PreparedServer:
    server = ServerSpec(command=("./srv", "{port}"), git=str(repository), build=build)
    return prepare(Variant(name="v", server=server), repository.parent / "cache", Path("nowhere"))


def test_a_checkout_does_not_depend_on_the_users_settings(repository: Path) -> None:
    assert prepared(repository).program.read_bytes() == b"#!/bin/sh\nexec memcached\n"


def test_files_of_a_checkout_are_found_from_another_directory(repository: Path) -> None:
    server = ServerSpec(command=("./srv", "srv.conf", "{port}", "1"), git=str(repository))
    server = server.model_copy(update={"build": (("touch", "srv.conf"),)})
    cache = repository.parent / "cache"
    variant = Variant(name="v", server=server, env={"PATHS": "./srv:/opt", "B": "./none"})
    made = prepare(variant, cache, Path("nowhere"))
    tree = made.program.parent
    assert made.arguments == (f"{tree}/srv.conf", "{port}", "1")
    assert made.env == {"PATHS": f"{tree}/srv:/opt", "B": "./none"}


def test_a_search_path_outside_of_the_checkout_is_refused(repository: Path) -> None:
    server = ServerSpec(command=("./srv", "{port}"), git=str(repository), build=(("mkdir", "lib"),))

    def made(search: str) -> PreparedServer:
        variant = Variant(name="v", server=server, env={"LD_LIBRARY_PATH": search})
        return prepare(variant, repository.parent / "cache", Path("nowhere"))

    single = made("lib:.")
    tree = single.program.parent
    assert single.env == {"LD_LIBRARY_PATH": f"{tree}/lib:{tree}"}
    with pytest.raises(BuildError, match=r"LD_LIBRARY_PATH: expected directories .* got none"):
        made("lib:none")


def test_a_failed_build_names_the_submodules_that_are_not_there(repository: Path) -> None:
    with pytest.raises(BuildError, match=r"^false 1 failed") as failed:
        prepared(repository, ("false", "1"))
    assert failed.value.hint is None
    (repository / ".gitmodules").touch()
    git(repository, "add", ".")
    git(repository, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "two")
    with pytest.raises(BuildError, match=r"^false 1 failed") as failed:
        prepared(repository, ("false", "1"))
    assert "git submodule update --init --recursive" in str(failed.value.hint)


def test_a_build_that_does_not_make_the_program_has_failed(repository: Path) -> None:
    with pytest.raises(BuildError, match=r"after the build, .* there is no .*/srv") as failed:
        prepared(repository, ("rm", "srv"))
    assert "--build" in str(failed.value.hint)


def test_a_program_that_is_not_of_the_checkout_is_refused(repository: Path) -> None:
    """All revisions would run the same file: the one that the last build installed."""
    installed = repository.parent / "installed"
    script = "#!/bin/sh\n"
    for path in (installed, repository.parent / "python"):
        path.write_text(script)
        path.chmod(0o755)
    server = ServerSpec(command=(str(installed), "{port}"), git=str(repository))

    def made(**changes: object) -> PreparedServer:
        variant = Variant(name="v", server=server.model_copy(update=changes))
        return prepare(variant, repository.parent / "cache", Path("nowhere"))

    for remote in (False, True):
        with pytest.raises(BuildError, match="expected a file of the checkout") as failed:
            prepare(
                Variant(name="v", server=server), repository.parent / "c", Path("n"), remote=remote
            )
        assert str(installed) in str(failed.value)
    interpreter = str(repository.parent / "python")
    assert made(command=(interpreter, "./srv", "{port}")).program == Path(interpreter)


def test_a_program_that_was_replaced_before_it_served_is_refused(repository: Path) -> None:
    """The build of another variant may install to the same place."""
    made = prepared(repository)
    with pytest.raises(BuildError, match=r"/srv has changed since it was prepared"):
        made.served_by(str(made.program), "4" * 64, [str(made.program), "1"])


def test_a_build_is_named_by_what_serves(repository: Path) -> None:
    """A wrapper script becomes another program; a script that serves is an argument of its interpreter."""
    script = prepared(repository)
    wrapped = script.served_by("/usr/bin/memcached", "1" * 64, ["memcached", "-p", "1"])
    other = script.served_by("/usr/bin/memcached", "2" * 64, ["memcached", "-p", "1"])
    assert wrapped.build_id.startswith("memcached-")
    assert len({script.content, wrapped.content, other.content}) == 3
    assert wrapped.provenance["server"]["serves"] == "/usr/bin/memcached"
    interpreted = script.served_by("/usr/bin/python3", "3" * 64, ["python3", str(script.program)])
    assert interpreted.build_id.startswith("srv-")
    assert interpreted.content != script.content
    own = script.provenance["server"]["sha256"]
    assert script.served_by(str(script.program), own, []) is script
