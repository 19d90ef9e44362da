"""Variants that are other servers: what is read, and errors with their lines before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perfrunner.errors import SpecError, UsageError
from perfrunner.hosts.container import Image
from perfrunner.hosts.transport import Transport
from perfrunner.servers.checks import ChecksHere
from perfrunner.spec.loader import load_spec
from perfrunner.spec.pair import spec_document

SPEC = """\
name: servers
cluster: local
baseline: one
variants:
  one: {server: {command: [PROGRAM, -p, "{port}", -t, 1.10]}}
  two:
    server: {kind: memcached, command: [PROGRAM, -p, "{port}", -t, 2]}
    env: {A: b}
workloads:
  pf: {type: pillowfight, items: 10k, duration: 5s}
"""


class Servers:
    """A spec of two servers in the current directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "memcached"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)

    def load(self, *changes: tuple[str, str], overrides: tuple[str, ...] = ()):
        text = SPEC.replace("PROGRAM", "./memcached")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = self.directory / "spec.yaml"
        path.write_text(text)
        return load_spec(path, overrides, servers=ChecksHere())

    def errors(self, *changes: tuple[str, str], overrides: tuple[str, ...] = ()) -> list[str]:
        with pytest.raises(SpecError) as caught:
            self.load(*changes, overrides=overrides)
        return list(caught.value.problems)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    monkeypatch.chdir(tmp_path)
    return Servers(tmp_path)


def test_a_command_is_taken_as_it_is_written(servers: Servers):
    spec = servers.load()
    single, two = spec.variants.values()
    assert single.server is not None
    assert single.server.command == (str(servers.program), "-p", "{port}", "-t", "1.10")
    assert (single.server.known_kind, single.allocator.name, single.allocator.preload) == (
        "memcached",
        "system",
        None,
    )
    assert two.env == {"A": "b"}
    assert spec.cases == (("pf", "-"),), "servers have no buckets"


def test_paths_of_files_are_those_of_the_spec(servers: Servers):
    """The server is started in another directory: of a program that finds `./mod.so` by hand, only it would be lost."""
    for name in ("redis.conf", "mod.so", "1.10"):
        (servers.directory / name).touch()
    words = '[./memcached, -p, "{port}", redis.conf, --load=./mod.so, 2, other.so'
    paths = ("env: {A: b}", "env: {A: 'no.so:./mod.so', B: /dev/stdin}")
    spec = servers.load(('[./memcached, -p, "{port}", -t, 2', words), paths)
    two, here = spec.variants["two"], servers.directory
    assert two.server is not None
    assert two.server.command[3:] == (
        f"{here}/redis.conf",
        f"--load={here}/mod.so",
        "2",
        "other.so",
    )
    assert two.env == {"A": f"no.so:{here}/mod.so", "B": "/dev/stdin"}
    for word in ("none.conf", "./none.so"):
        wrong = servers.errors(("-t, 2]", f"{word}]"))
        assert "server.command[3]: expected a file that exists, or an absolute path" in wrong[0]


def test_directories_of_search_paths_are_those_of_the_spec(servers: Servers):
    """Keep a word that is the name of a directory, unless the option or variable names a search path."""
    (servers.directory / "new").mkdir()
    words = '[/usr/bin/env, LD_LIBRARY_PATH=., ./memcached, -p, "{port}", --mode=new, new'
    env = "env: {LD_LIBRARY_PATH: '.:new::/opt:$ORIGIN', B: new}"
    spec = servers.load(('[./memcached, -p, "{port}", -t, 2', words), ("env: {A: b}", env))
    two, here = spec.variants["two"], servers.directory
    assert two.server is not None
    assert two.server.command[1] == f"LD_LIBRARY_PATH={here}"
    assert two.server.command[-2:] == ("--mode=new", "new")
    assert two.env == {"LD_LIBRARY_PATH": f"{here}:{here}/new::/opt:$ORIGIN", "B": "new"}
    (wrong,) = servers.errors(("env: {A: b}", "env: {LD_LIBRARY_PATH: '/opt:none'}"))
    assert "env.LD_LIBRARY_PATH: expected directories that exist, or absolute paths" in wrong
    (wrong,) = servers.errors(('[./memcached, -p, "{port}", -t, 2', words.replace("=.,", "=none,")))
    assert "server.command[1]: expected a file that exists, or an absolute path" in wrong


def test_a_build_may_be_written_as_in_a_shell(servers: Servers):
    subprocess.run(["git", "init", "-q", str(servers.directory)], check=True)
    git = ["git", "-C", str(servers.directory), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    build = "[./autogen.sh && ./configure, make -j2 'A=b c', [make, install]]"
    spec = servers.load(("kind: memcached,", f"kind: memcached, git: ., build: {build},"))
    server = spec.variants["two"].server
    assert server is not None
    assert server.build == (
        ("sh", "-c", "./autogen.sh && ./configure"),
        ("make", "-j2", "A=b c"),
        ("make", "install"),
    )
    (wrong,) = servers.errors(("kind: memcached,", "kind: memcached, git: ., build: [make 'a],"))
    assert "build[0]: No closing quotation" in wrong


def test_a_server_may_have_variables_of_its_own_allocator(servers: Servers):
    """Redis is linked with jemalloc: its options are in the environment."""
    spec = servers.load(("{A: b}", "{MALLOC_CONF: 'narenas:1', no_proxy: 'a:b'}"))
    assert spec.variants["two"].env == {"MALLOC_CONF": "narenas:1", "no_proxy": "a:b"}
    (wrong,) = servers.errors(("{A: b}", "{LD_PRELOAD: ./memcached}"))
    assert "two.env.LD_PRELOAD: expected no preload in env: use allocator.preload" in wrong
    options = (
        "{MALLOC_CONF: 'a:b'}\n    allocator: {preload: jemalloc-5.3.1, options: {narenas: 1}}"
    )
    servers.load(("{A: b}", options))
    (wrong,) = servers.errors(("{A: b}", options.replace("MALLOC", "_RJEM_MALLOC")))
    assert "two.env._RJEM_MALLOC_CONF: expected it in allocator.options" in wrong


def test_a_configuration_file_that_cannot_be_measured(servers: Servers):
    """It is read before anything starts: a replica would begin to copy the data of its master at once."""
    (servers.directory / "r.conf").write_text("replicaof 10.0.0.1 6379\n")
    changes = (
        "kind: memcached, command: [./memcached, -p",
        "kind: redis, command: [./memcached, r.conf, -p",
    )
    (wrong,) = servers.errors(changes)
    assert "two.server.command[1]: " in wrong
    assert "r.conf has replicaof 10.0.0.1 6379: expected a server that is no replica" in wrong
    (servers.directory / "r.conf").write_text("replicaof no one\n")
    servers.load(changes)


@pytest.mark.parametrize(
    ("mark", "words", "expected"),
    [
        (b"can't run as root without the -u switch", "-d, '{port}'", "leave out -d"),
        (b"redis_version:%s", "--port, '{port}', --replicaof, a, '1'", "no replica"),
        (b"another", "-d, --replicaof, a, '{port}'", ""),
    ],
)
def test_a_server_is_known_by_its_program(servers: Servers, mark: bytes, words: str, expected: str):
    """`./mine` is a memcached of the user's own; the words of a script need not be those of the server."""
    mine, line = servers.directory / "mine", '[./memcached, -p, "{port}", -t, 1.10]'
    mine.write_bytes(Path("/bin/true").read_bytes() + mark)
    mine.chmod(0o755)
    change = (line, f"[nice, ./mine, {words}]")
    if expected:
        (wrong,) = servers.errors(change)
        assert "variants.one.server.command[" in wrong
        assert expected in wrong
    else:
        servers.load(change)
    mine.write_bytes(b"#!/bin/sh\n# " + mark)
    servers.load(change)


def test_it_is_written_and_read_back(servers: Servers):
    spec = servers.load()
    path = servers.directory / "again.yaml"
    path.write_text(spec_document(spec))
    assert load_spec(path, servers=ChecksHere()) == spec


def test_a_spec_of_the_engine_is_recorded_as_before(servers: Servers):
    spec = servers.load(
        (
            'two:\n    server: {kind: memcached, command: [./memcached, -p, "{port}", -t, 2]}\n',
            "two:\n    allocator: {name: system}\n",
        )
    )
    recorded = spec.variants["two"].model_dump(mode="json")
    assert "server" not in recorded
    assert recorded["allocator"] == {"name": "system", "preset": None, "options": {}}
    assert spec.cases == (("pf", "persistent"),), "the engine has"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"{port}", -t, 1.10', "11211, -t, 1.10", 'spec.yaml:5: variants.one.server.command: expected {port} in a word'),
        ("-t, 1.10]", "-P, 'x-{pid}']", "spec.yaml:5: variants.one.server.command: expected {port} or {dir}, got {pid} in x-{pid}"),
        ("[./memcached, -p, \"{port}\", -t, 1.10]", "[./memcache, -p, \"{port}\"]", "spec.yaml:5: variants.one.server.command[0]: expected a program; there is no"),
        ("[./memcached, -p, \"{port}\", -t, 1.10]", "[memcachd, -p, \"{port}\"]", "spec.yaml:5: variants.one.server.command[0]: expected a program; there is no memcachd in PATH"),
        ("-t, 1.10]", "-t, 1.10, -d]", "spec.yaml:5: variants.one.server.command[5]: expected a server that stays in the foreground"),
        ("-t, 1.10]}", "-t, 1.10], build: [[make]]}", "spec.yaml:5: variants.one.server: expected git next to revision and build"),
        ("-t, 1.10]}", "-t, 1.10], git: ./nowhere}", "spec.yaml:5: variants.one.server.git: expected a repository on this machine"),
        ("-t, 1.10]}", "-t, 1.10], password_env: NOT_SET_ANYWHERE}", "spec.yaml:5: variants.one.server.password_env: expected a variable that is set"),
        ("-t, 1.10]}", "-t, 1.10], protocol: resp2}", "spec.yaml:5: variants.one.server.protocol: expected binary or text or meta, which memcached speaks, got resp2"),
        ("-t, 1.10]}}", "-t, 1.10]}, allocator: {preload: jemaloc}}", "spec.yaml:5: variants.one.allocator.preload: expected an allocator"),
        ("-t, 1.10]}}", "-t, 1.10]}, allocator: {preload: ./none.so}}", "spec.yaml:5: variants.one.allocator.preload: no library"),
        ("-t, 1.10]}}", "-t, 1.10]}, allocator: {name: jemalloc-5.3.1}}", "spec.yaml:5: variants.one.allocator.name: expected preload"),
        ("env: {A: b}", "env: {A: 'b{port}'}", "spec.yaml:8: variants.two.env.A: expected no {port}"),
        ("-t, 1.10]}}", "-t, 1.10]}, allocator: {preload: '/a b/c.so'}}", "spec.yaml:5: variants.one.allocator.preload: expected the name of an allocator, or a path of letters"),
        ("-t, 1.10]}}", "-t, 1.10]}, params: {ht_size: 3}}", "spec.yaml:5: variants.one.params: expected no params"),
        ("-t, 1.10]}}", "-t, 1.10]}, source: {git: main}}", "spec.yaml:5: variants.one.server: expected either source"),
        ("type: pillowfight, items: 10k, duration: 5s", "type: append, items: 10k", "spec.yaml:10: workloads.pf.type: expected pillowfight: variant one is another server"),
        ("duration: 5s", "duration: 5s, instructions: 100", "spec.yaml:10: workloads.pf.instructions: expected 0"),
    ],
)  # fmt: skip
def test_errors_have_their_line(servers: Servers, old: str, new: str, expected: str):
    errors = servers.errors((old, new))
    assert [expected in error for error in errors] == [True], errors


ONE, IN_IMAGE = '[./memcached, -p, "{port}", -t, 1.10]}', '[./memcached, -p, "{port}"], image: %s}'


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image `known` is there, and no other."""

    def find(name: str, host: Transport) -> Image:
        if name != "known":
            raise UsageError(f"podman on {host.name} has no image {name}", f"podman pull {name}")
        return Image("sha256:aa", "sha256:bb", ("podman",))

    monkeypatch.setattr("perfrunner.servers.checks.find_image", find)


@pytest.mark.usefixtures("images")
def test_the_program_of_an_image_is_not_looked_for_here(servers: Servers):
    spec = servers.load((ONE, '[bin/redis-server, --port, "{port}"], image: known}'))
    server = spec.variants["one"].server
    assert server is not None
    assert server.command[0] == "bin/redis-server"
    assert (server.known_kind, server.is_sent) == ("redis", False)
    assert server.text == "bin/redis-server --port {port} in known"


@pytest.mark.usefixtures("images")
def test_a_password_in_the_command_is_also_the_loads(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KV_PASSWORD", "a")
    locked = '[redis-server, --port, "{port}", --requirepass, a], image: known%s}'
    errors = servers.errors((ONE, locked % ""))
    expected = "spec.yaml:5: variants.one.server.command[3]: expected server.password_env (ab: --password-env)"
    assert [expected in error for error in errors] == [True], errors
    servers.load((ONE, locked % ", password_env: KV_PASSWORD"))


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (IN_IMAGE % "nowhere", "spec.yaml:5: variants.one.server.image: podman on this machine has no image nowhere (podman pull nowhere)"),
        (IN_IMAGE % "--privileged", "spec.yaml:5: variants.one.server.image: expected the name of an image"),
        (IN_IMAGE % "known, git: ." , "spec.yaml:5: variants.one.server: expected either image or git"),
        ('[./memcached, -p, "{port}", -P, "{dir}/pid"], image: known}', "spec.yaml:5: variants.one.server: expected a command without {dir}"),
        (IN_IMAGE % "known" + ", allocator: {preload: glibc}", "spec.yaml:5: variants.one.allocator.preload: expected no preload with server.image"),
    ],
)  # fmt: skip
def test_images_that_cannot_be_measured(servers: Servers, new: str, expected: str):
    errors = servers.errors((ONE, new))
    assert [expected in error for error in errors] == [True], errors


@pytest.mark.usefixtures("images")
def test_an_image_on_hosts_over_ssh_is_not_looked_for_here(servers: Servers):
    servers.load((ONE, IN_IMAGE % "nowhere"), ("cluster: local\n", REMOTE))


REMOTE = """cluster:
  name: lab
  transport: ssh
  hosts: {kv: {address: kv.example, work_dir: /var/tmp/w}, load: {address: load.example, work_dir: /var/tmp/w}}
  engine_nodes: [kv]
  load_clients: [load]
"""


def test_what_a_host_over_ssh_has_is_not_known_here(servers: Servers):
    """Its own programs and libraries are looked up when the run begins; those that are sent must be here."""
    own = '[no-such-server, -p, "{port}", -t, 1.10]}, allocator: {preload: snmalloc}'
    remote = ("cluster: local\n", REMOTE)
    spec = servers.load(remote, ('[./memcached, -p, "{port}", -t, 1.10]}', own))
    assert spec.variants["one"].server.is_sent is False
    assert spec.variants["two"].server.is_sent is True
    missing = servers.errors(
        remote, ('[./memcached, -p, "{port}", -t, 1.10]', '[./none, "{port}"]')
    )
    assert ["expected a program; there is no" in error for error in missing] == [True]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("engine_nodes: [kv]", "engine_nodes: [kv, load]", "expected a cluster with one engine node"),
        ("load_clients: [load]", "load_clients: [load]\n  build_host: kv", "expected a cluster without build_host"),
    ],
)  # fmt: skip
def test_clusters_that_servers_cannot_use(servers: Servers, old: str, new: str, expected: str):
    errors = servers.errors(("cluster: local\n", REMOTE.replace(old, new)))
    assert [expected in error for error in errors] == [True], errors


def test_a_preload_needs_a_server(servers: Servers):
    errors = servers.errors(
        ("two:\n", "two:\n    allocator: {preload: glibc}\n"),
        ('server: {kind: memcached, command: [./memcached, -p, "{port}", -t, 2]}', "options: {}"),
    )
    assert ["variants.two.allocator.preload: expected server" in error for error in errors] == [
        True
    ]


def test_an_allocator_needs_a_name_or_a_preload(servers: Servers):
    errors = servers.errors(("env: {A: b}", "allocator: {options: {}}"))
    assert ["variants.two.allocator.name: required key is missing" in e for e in errors] == [True]


def test_options_of_a_preload_become_its_environment(servers: Servers):
    options = "allocator: {preload: PRELOAD, options: {OPTION: 1}}"
    for preload, option, variable in (
        ("jemalloc", "narenas", {"MALLOC_CONF": "narenas:1"}),
        ("mimalloc", "large_os_pages", {"MIMALLOC_LARGE_OS_PAGES": "1"}),
    ):
        text = options.replace("PRELOAD", preload).replace("OPTION", option)
        path = servers.directory / "spec.yaml"
        path.write_text(SPEC.replace("PROGRAM", "./memcached").replace("env: {A: b}", text))
        allocator = load_spec(path).variants["two"].allocator
        assert allocator.preload_environment == variable
    assert (
        "expected no options for glibc"
        in servers.errors(("env: {A: b}", "allocator: {preload: glibc, options: {a: 1}}"))[0]
    )


def test_the_command_may_be_set_and_be_an_axis(servers: Servers):
    spec = servers.load(overrides=("variants.one.server.command[4]=8",))
    assert spec.variants["one"].server.command[4] == "8"
    matrix = (
        SPEC.replace("PROGRAM", "./memcached")
        .partition("variants:")[0]
        .replace("baseline: one", 'baseline: "default,x"')
    )
    matrix += (
        'matrix:\n  base: {server: {command: [./memcached, -p, "{port}", -t, 1]}}\n'
        "  axes: {allocator.preload: [glibc, null], env.A: [x, y]}\nworkloads:\n  pf: {type: pillowfight, items: 10k, duration: 5s}\n"
    )
    path = servers.directory / "spec.yaml"
    path.write_text(matrix)
    assert list(load_spec(path, servers=ChecksHere()).variants) == [
        "glibc,x",
        "glibc,y",
        "default,x",
        "default,y",
    ]


def test_a_revision_must_exist(servers: Servers):
    git = ["git", "-C", str(servers.directory), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    old = '{command: [./memcached, -p, "{port}", -t, 1.10]}'
    spec = servers.load((old, '{git: ., command: [bin/mc, -p, "{port}"]}'))
    assert spec.variants["one"].server.git == str(servers.directory)
    assert spec.variants["one"].server.command[0] == "bin/mc", "a path in the checkout"
    errors = servers.errors((old, '{git: ., revision: mian, command: [bin/mc, -p, "{port}"]}'))
    assert "variants.one.server.revision" in errors[0]
    assert "(did you mean main?)" in errors[0]


def test_a_known_program_in_path_is_found(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", f"{servers.directory}:{Path(sys.executable).parent}")
    spec = servers.load(('./memcached, -p, "{port}", -t, 1.10', 'memcached, -p, "{port}"'))
    assert spec.variants["one"].server.command[0] == "memcached"
