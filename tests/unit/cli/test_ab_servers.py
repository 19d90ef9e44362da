"""`ab` of commands, allocators and revisions of a repository, around a runner that is played."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from perfrunner.servers.preload import find_library
from perfrunner.spec.loader import load_spec
from perfrunner.spec.pair import build_steps, command_of, of_commands, shell_part
from perfrunner.spec.server import own_words
from tests.unit.cli.test_run import play

__all__ = ["play"]


@pytest.fixture
def program(cli):
    """Two programs of the same name, in directories of their own."""
    for directory in ("old", "new"):
        path = cli.directory / directory / "memcached"
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return cli.directory


def test_two_commands_need_no_spec(cli, play, program):
    runner = play()
    result = cli(
        "ab", "./old/memcached -p {port} -t 1", "./new/memcached -p {port} -t 2", "--items", "20k",
        "--value-size", "1k", "--blocks", "6",
    )  # fmt: skip
    spec = runner.arguments.spec
    assert list(spec.variants) == ["memcached-t=1", "memcached-t=2"]
    assert [v.server.command for v in spec.variants.values()] == [
        (str(program / "old" / "memcached"), "-p", "{port}", "-t", "1"),
        (str(program / "new" / "memcached"), "-p", "{port}", "-t", "2"),
    ]
    assert (spec.baseline, spec.blocks) == ("memcached-t=1", 6)
    assert list(spec.workloads) == ["mixed"]
    assert spec.workloads["mixed"].items == 20_000
    assert spec.workloads["mixed"].value_size == (1000, 1000)
    kept = Path(runner.arguments.spec_path)
    assert load_spec(kept) == spec, "the spec that it leaves is the one that was run"
    assert "memcached-t=2 against memcached-t=1" in result.stdout


def test_the_same_command_line_is_reproduced(cli, play, program):
    runner = play()
    words = ("ab", "./old/memcached -p {port} -t 1", "./new/memcached -p {port} -t 2")
    cli(*words)
    assert list(runner.arguments.command)[:4] == ["perfrunner", *words]
    assert shlex.split(runner.arguments.resume_command)[:4] == ["perfrunner", *words]


def test_more_than_two_and_the_workloads_that_are_named(cli, play, program):
    runner = play()
    cli(
        "ab", *(f"./old/memcached -p {{port}} -t {n}" for n in (1, 2, 4)), "--workload", "read,unbatched"
    )  # fmt: skip
    spec = runner.arguments.spec
    assert list(spec.variants) == ["memcached-t=1", "memcached-t=2", "memcached-t=4"]
    assert [(w.set_share, w.batch) for w in spec.workloads.values()] == [(0, 100), (20, 1)]


def test_one_command_under_several_allocators(cli, play, program):
    runner = play()
    cli(
        "ab",
        "--preload",
        "glibc,jemalloc",
        "./old/memcached -p {port}",
        "--protocol",
        "binary",
        "--password-env",
        "HOME",
    )
    variants = runner.arguments.spec.variants
    assert {name: v.allocator.preload for name, v in variants.items()} == {
        "glibc": "glibc",
        "jemalloc": "jemalloc",
    }
    assert {v.server.protocol for v in variants.values()} == {"binary"}
    assert {v.server.password_env for v in variants.values()} == {"HOME"}


def test_revisions_of_a_repository(cli, play, program):
    git = ["git", "-C", str(program), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "tag", "7.2"], check=True)
    runner = play()
    run = ("--run", "src/server --port {port}")
    assert "are the same commit" in cli("ab", ".@7.2", ".@main", *run, code=2).stderr
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "two"], check=True)
    cli("ab", ".@7.2", ".@main", "--build", "make -j2", "--run", "src/server --port {port}")
    servers = [v.server for v in runner.arguments.spec.variants.values()]
    assert [(s.git, s.revision, s.build) for s in servers] == [
        (str(program), "7.2", (("make", "-j2"),)),
        (str(program), "main", (("make", "-j2"),)),
    ]
    assert {s.command for s in servers} == {("src/server", "--port", "{port}")}
    for source in (".@@{u}", ".@npm/@types", ".@größe", ".@main@{9}"):
        wrong = cli("ab", ".@main", source, "--run", "src/server --port {port}", code=2)
        assert f"{program} has no revision {source[2:]}" in wrong.stderr
    wrong = cli("ab", ".@7.2", ".@mian", "--run", "src/server --port {port}", code=2)
    assert "(did you mean main?)" in wrong.stderr


def test_the_plan_counts_what_is_to_be_built(cli, play, program):
    """Both revisions, and the load tools; no build of a server that is there."""
    git = ["git", "-C", str(program), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for name in ("one", "two"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", name], check=True)
        subprocess.run([*git, "tag", name], check=True)
    play()
    revisions = (".@one", ".@two", "--build", "make", "--run", "src/server --port {port}")
    planned = cli("ab", *revisions, "--dry-run").stdout
    assert "this includes 3 builds that are not in the cache" in planned
    commands = (f"./old/memcached -p {{port}} -t {n}" for n in (1, 2))
    planned = cli("ab", *commands, "--dry-run").stdout
    assert "this includes 1 build that is not in the cache" in planned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["./old/memcached -p {port}"], "expected at least 2 commands, got 1"),
        (["./old/memcached -p {port}", "./old/memcached -p 1"], "it has no {port}"),
        (["./old/memcached -p {port}", "./old/memcache -p {port}"], "there is no"),
        (["./old/memcached -p {port}", "./new/memcached -d -p {port}"], "foreground"),
        (["./old/memcached -p {port} 'x", "b {port}"], "No closing quotation"),
        (["A=1", "b {port}"], "it is empty"),
        (["A={port} ./old/memcached", "b {port}"], "env A={port} ./old/memcached"),
        (["A={port} ./old/memcached -p {port}", "b {port}"], "env A={port} ./old/memcached"),
        (["A=x:{dir} ./old/memcached -p {port}", "b {port}"], "env A=x:{dir} ./old/memcached"),
        (["./old/memcached -p {{port}}", "b {port}"], "expected {port} or {dir}, got {{port}}"),
        (["exec ./old/memcached -p {port}", "b {port}"], "exec needs a shell"),
        (["X=1 ulimit -c {port}", "b {port}"], "ulimit needs a shell"),
        ([". ./old/memcached {port}", "b {port}"], ". needs a shell"),
        (["./a=b/memcached -p {port}", "b {port}"], "a program without '=' in its path"),
        (["--preload", "glibc", "./old/memcached -p {port}"], "expected at least 2 allocators"),
        (["--preload", "glibc,jemaloc", "./old/memcached -p {port}"], "did you mean jemalloc?"),
        (["--preload", "glibc,jemalloc", "a {port}", "b {port}"], "--preload takes one command"),
        (["--run", "x {port}", "repo", "repo@b"], "expected REPOSITORY@REVISION"),
        (["--build", "make '", "--run", "x {port}", ".@a", ".@b"], '--build "make \'": No closing'),
        (["--value-size", "1m", "./old/memcached -p {port}", "./new/memcached -p {port}"], "1MiB"),
        (["--build", "make", "a {port}", "b {port}"], "--build needs --run"),
        (["main", "main~1", "--protocol", "binary"], "--protocol is for servers"),
        (["./old/memcached -p {port}", "b {port} -x {name}"], "expected {port} or {dir}"),
        (["main"], "expected two sources of the engine"),
        (["--cluster", "local", "a {port}", "b {port}"], "--cluster cannot be used with commands"),
    ],
)
def test_usage_errors_before_anything_starts(cli, play, program, words: list[str], message: str):
    runner = play()
    assert message in cli("ab", *words, code=2).stderr
    assert not hasattr(runner, "arguments") or runner.arguments is None


def test_the_same_command_twice(cli, play, program):
    words = ("ab", *["./old/memcached -p {port}"] * 2)
    runner = play()
    assert "are the same command" in cli(*words, code=2).stderr
    assert cli.json(*words, "--if-same", "skip")["same"]
    cli(*words, "--if-same", "measure")
    assert list(runner.arguments.spec.variants) == ["memcached", "memcached-2"]


def test_the_same_library_under_two_names(cli, play, program):
    runner = play()
    path = str(find_library("glibc"))
    words = ("ab", "./old/memcached -p {port}", "--preload", f"glibc,{path}")
    assert "are the same command" in cli(*words, code=2).stderr
    cli(*words, "--if-same", "measure")
    assert [v.allocator.preload for v in runner.arguments.spec.variants.values()] == ["glibc", path]


def test_a_shell_only_for_shell_text_of_the_command_line():
    assert build_steps("make -j2 MALLOC=libc") == [["make", "-j2", "MALLOC=libc"]]
    assert build_steps("./autogen.sh && make") == [["sh", "-c", "./autogen.sh && make"]]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("memcached -p {port} > log", ">"),
        ("memcached -p {port} 2>&1", "2>&1"),
        ("memcached -p {port} 2>>log", "2>>"),
        ("memcached -p {port} | tee log", "|"),
        ("memcached -p {port} &", "&"),
        ("cd /tmp && memcached -p {port}", "&&"),
        ("ulimit -n 9; memcached -p {port}", ";"),
        ("memcached -p {port} -t $(nproc)", "$("),
        ('memcached -p {port} -t "`nproc`"', "`"),
        ("$HOME/memcached -p {port}", "$HOME"),
        ('memcached -p {port} -P "${HOME}/x"', "${"),
        ("memcached -p {port} # two threads", "#"),
        ("memcached -p {port}\nmemcached", "a line break"),
    ],
)
def test_what_needs_a_shell_is_refused(cli, play, program, text: str, part: str):
    """The words of a redirection would be arguments of the server, which may ignore them."""
    runner = play()
    output = cli("ab", "./old/memcached -p {port}", text, code=2).stderr
    assert f": {part} needs a shell" in output
    assert "script that ends with `exec" in output
    assert not hasattr(runner, "arguments") or runner.arguments is None


def test_directories_of_search_paths_are_those_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    command = command_of("LD_LIBRARY_PATH=lib:.:none MODE=lib server {port}")
    assert command.env == {"LD_LIBRARY_PATH": f"{tmp_path}/lib:{tmp_path}:none", "MODE": "lib"}


@pytest.mark.parametrize(
    "text",
    [
        "server {port} --user 'x on >pw ~* &* +@all'",
        'server {port} --user "x on >pw ~* &* +@all; #"',
        r"server {port} a\&b \$HOME \> \#",
        'server {port} "costs 5$" --save "" --bind * -::*',
        "server {port} it's fine'#1",
        "server {port} '$(x) `y` | z'",
        " server {port}\n",
    ],
)
def test_what_a_shell_takes_literally_is_no_shell_text(text: str):
    assert shell_part(text.strip()) is None
    assert command_of(text).words[1] == "{port}"


def test_variables_in_front_and_homes_are_those_of_a_shell(cli, play, program, monkeypatch):
    monkeypatch.setenv("HOME", str(program))
    runner = play()
    cli("ab", "~/old/memcached -p {port}", "X=1 Y='a b' ~/old/memcached -p {port} \\\n -P ~/{port}")
    plain, other = runner.arguments.spec.variants.values()
    assert plain.env == {}
    assert other.env == {"X": "1", "Y": "a b"}
    path = str(program / "old" / "memcached")
    assert other.server.command == (path, "-p", "{port}", "-P", str(program / "{port}"))


def test_homes_in_variables_are_those_of_a_shell(cli, play, program, monkeypatch):
    monkeypatch.setenv("HOME", str(program))
    command = "L=~/old:/x:~/none:a~/b N=~x ./old/memcached -p {port}"
    runner = play()
    cli("ab", "./old/memcached -p {port}", command)
    env = dict([*runner.arguments.spec.variants.values()][1].env)
    home = str(program)
    assert env == {"L": f"{home}/old:/x:{home}/none:a~/b", "N": "~x"}


def test_files_of_the_current_directory_are_found_from_another_one(cli, play, program):
    (program / "a.conf").touch()
    (program / "b.conf").touch()
    runner = play()
    cli("ab", *(f"L=./new ./old/memcached {n}.conf -p {{port}}" for n in "ab"))
    variants = runner.arguments.spec.variants
    assert [*variants] == ["memcached-a.conf", "memcached-b.conf"]
    second = variants["memcached-b.conf"]
    assert second.server.command[1] == str(program / "b.conf")
    assert second.env == {"L": str(program / "new")}


def test_one_command_with_two_environments_is_not_the_same_command(cli, play, program):
    runner = play()
    cli("ab", "X=1 ./old/memcached -p {port}", "X=2 ./old/memcached -p {port}")
    variants = runner.arguments.spec.variants
    assert {name: dict(v.env) for name, v in variants.items()} == {
        "memcached-X=1": {"X": "1"},
        "memcached-X=2": {"X": "2"},
    }


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("LD_PRELOAD=/none/libx.so", "expected no preload in env: use allocator.preload"),
        ("GLIBC_TUNABLES=glibc.malloc.arenas_max=1", "unknown tunable glibc.malloc.arenas_max"),
        ("MALLOC_ARENA_MAXI=1", "unknown variable of glibc's malloc"),
    ],
)
@pytest.mark.parametrize("launcher", ["", "env ", "nice env "])
def test_variables_that_would_have_no_effect_are_refused(
    cli, play, program, launcher: str, assignment: str, message: str
):
    play()
    command = f"{launcher}{assignment} ./new/memcached -p {{port}}"
    assert message in cli("ab", "./old/memcached -p {port}", command, code=2).stderr


def test_one_environment_under_several_allocators(cli, play, program):
    runner = play()
    cli("ab", "X=1 ./old/memcached -p {port}", "--preload", "glibc,jemalloc")
    assert [dict(v.env) for v in runner.arguments.spec.variants.values()] == [{"X": "1"}] * 2


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("memcached -c 0", "memcached -c 0"),
        ("taskset -c 0 memcached -c 9", "memcached -c 9"),
        ("numactl --membind=0 -N 0 nice -n 5 redis-server --port 1", "redis-server --port 1"),
        ("env A=/b/c ./srv -p 1", "./srv -p 1"),
        ("taskset -c 0 srv -c 9", ""),
        ("sh -c 'memcached -c 9'", ""),
        ("./sh-server -c 9", "./sh-server -c 9"),
    ],
)
def test_the_words_of_the_server_follow_those_of_a_launcher(command: str, own: str):
    words = shlex.split(command)
    assert list(own_words(words)) == shlex.split(own)


def test_the_server_behind_a_launcher_is_looked_at(cli, play, program):
    runner = play()
    cli("ab", "taskset -c 0 ./old/memcached -p {port}", "taskset -c 1 ./new/memcached -p {port}")
    servers = [v.server for v in runner.arguments.spec.variants.values()]
    assert [s.command[3] for s in servers] == [
        str(program / d / "memcached") for d in ("old", "new")
    ]
    assert {s.known_kind for s in servers} == {"memcached"}
    for word, message in (("./new/memcache", "there is no"), ("./new/memcached -d", "foreground")):
        output = cli("ab", "./old/memcached -p {port}", f"taskset -c 0 {word} -p {{port}}", code=2)
        assert message in output.stderr


def test_names_say_what_differs():
    commands = [
        command_of("redis-server --port {port} --save ''"),
        command_of("redis-server --port {port} --save '' --io-threads 2"),
    ]
    assert list(of_commands(commands, {})) == ["redis-server", "redis-server-io-threads-2"]
    same = [command_of("/a/old/mc -p {port}"), command_of("/a/new/mc -p {port}")]
    assert list(of_commands(same, {})) == ["old-mc", "new-mc"]
    long = [command_of(f"mc -p {{port}} -o {'x_' * 50}{n}") for n in (1, 2)]
    assert list(of_commands(long, {})) == [f"mc-o={'x_' * 27}x", f"mc-o={'x_' * 27}x-2"]
    under = [command_of(f"A={'_/' * 60}{n} mc -p {{port}}") for n in (1, 2)]
    assert all(name.startswith("mc-A=") for name in of_commands(under, {}))
    texts = ("/a/mc -p {port}", "env GOGC=20 /a/mc -p {port}", "taskset -c 0 /b/other -p {port}")
    launched = list(of_commands([command_of(text) for text in texts], {}))
    assert launched == ["mc", "mc-env-GOGC=20", "other-taskset-c-0"]
    twice = [command_of("mc -p {port}")] * 2
    assert list(of_commands(twice, {})) == ["mc", "mc-2"]


def test_a_source_of_the_command_line_is_the_revision_of_a_server(cli, play, program):
    git = ["git", "-C", str(program), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    (program / "servers.yaml").write_text(
        "name: servers\ncluster: local\nbaseline: stock\nvariants:\n"
        '  stock: {server: {command: [./old/memcached, -p, "{port}"]}}\n'
        '  mine: {server: {git: ., command: [bin/mc, -p, "{port}"]}}\n'
        "workloads:\n  pf: {type: pillowfight, items: 10k, duration: 5s}\n"
    )
    runner = play()
    cli("run", "servers.yaml", "--source", "mine=main")
    assert runner.arguments.spec.variants["mine"].server.revision == "main"
    wrong = cli("run", "servers.yaml", "--source", "stock=main", code=2)
    assert "not built from git" in wrong.stderr
