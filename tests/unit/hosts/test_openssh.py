"""The route to a host is what the ssh command takes: `ssh -G` resolves, and nothing is left to the libraries."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfrunner.errors import HostError
from perfrunner.hosts import connection, data_address
from perfrunner.hosts.openssh import Destination, Route, resolve
from perfrunner.spec.cluster import ClusterSpec, HostSpec


def route(tmp_path: Path, text: str | bytes, address: str = "kv1", **fields: Any) -> Route:
    path = tmp_path / "config"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return resolve(Destination(address, config=str(path), **fields))


def end(results: Route) -> tuple[str, int, str]:
    return results.host, results.port, results.user


def jump(*words: str) -> tuple[str, ...]:
    return ("ssh", *words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Host kv1\n HostName 10.0.0.1 # rack 3\n User bob # the builder\n", ("10.0.0.1", 22, "bob")),
        ("Host kv1\n  HostName=10.0.0.1\n\tPort = 2200\n User \"bob\"\n", ("10.0.0.1", 2200, "bob")),
        ("User bob\nHost kv*,!kv1\n Port 1\nHost kv1\n Port 2\n", ("kv1", 2, "bob")),
        ("User bob\nHost kv* !kv1\n Port 1\n", ("kv1", 22, "bob")),
        ("User bob\nMatch host kv9\n Port 1\nMatch originalhost kv1\n Port 3\n", ("kv1", 3, "bob")),
        ("User bob\nMatch final all\n Port 4\n", ("kv1", 4, "bob")),
        ("User bob\nMatch exec \"test %n = kv1\"\n Port 5\n", ("kv1", 5, "bob")),
        ("User bob\nMatch exec false\n Port 5\n", ("kv1", 22, "bob")),
        ("User bob\r\nHost kv1\r\n Port 6\r\n", ("kv1", 6, "bob")),
        ("User jdoe@corp.example.com\n", ("kv1", 22, "jdoe@corp.example.com")),
        ("User CORP\\\\jdoe\n", ("kv1", 22, "CORP\\jdoe")),
        ("User bob\nHost KV1\n Port 7\n", ("kv1", 22, "bob")),
        ("User bob\nHostName %h.lab\n", ("kv1.lab", 22, "bob")),
    ],
)  # fmt: skip
def test_the_configuration_is_read_as_ssh_reads_it(
    tmp_path: Path, text: str, expected: tuple[str, int, str]
) -> None:
    assert end(route(tmp_path, text)) == expected


def test_the_cluster_file_wins(tmp_path: Path) -> None:
    text = "Host kv1\n HostName 10.0.0.1\n Port 2222\n User ann\n IdentityFile /other\n"
    (tmp_path / "mine").touch()
    results = route(tmp_path, text, port=22, user="CORP\\me", key=str(tmp_path / "mine"))
    assert end(results) == ("10.0.0.1", 22, "CORP\\me")
    assert results.identities.files[0] == str(tmp_path / "mine")
    assert results.identities.only


@pytest.mark.parametrize(
    "name", ["main%2Fx", "%h", "100%", "%%", "a b", 'it\'s "q"', "back\\slash"]
)
def test_the_paths_of_the_cluster_file_are_plain_paths(tmp_path: Path, name: str) -> None:
    """A Jenkins workspace of the branch main/x has a percent sign."""
    directory = tmp_path / name
    directory.mkdir()
    key, known = directory / "key", directory / "known_hosts"
    key.touch()
    known.touch()
    results = route(tmp_path, "", key=str(key), known_hosts=str(known))
    assert results.identities.files == (str(key),)
    assert results.host_keys.user_files == (str(known),)


@pytest.mark.parametrize("address", ["::1", "fe80::5%eth0", "KV1", "kv_1"])
def test_addresses(tmp_path: Path, address: str) -> None:
    spec = HostSpec(address=address, ssh_config="/dev/null")
    assert route(tmp_path, "", spec.address).host == address.lower()
    assert data_address(spec) == address.lower()
    assert address in HostSpec(address=address, data_address=address).model_dump_json()


@pytest.mark.parametrize(
    "address", ["-oProxyCommand=x", "a b", "a;b", "$(x)", "a@b", "[::1]", "ssh://a", ""]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="without brackets"):
        HostSpec(address=address)


@pytest.mark.parametrize("user", ["Jenkins", "jdoe@corp.example.com", "CORP\\jdoe", "j.doe$", "ü"])
def test_users(tmp_path: Path, user: str) -> None:
    assert route(tmp_path, "", user=HostSpec(user=user).user).user == user


@pytest.mark.parametrize("user", ["-l", "a b", "a;b", "a`b", "back\\", ""])
def test_what_is_no_user(user: str) -> None:
    with pytest.raises(ValueError, match="a user name"):
        HostSpec(user=user)


class TestProxies:
    @pytest.mark.parametrize(
        ("value", "words"),
        [
            ("gate", ("-W", "[kv1]:22", "--", "gate")),
            ("ssh://bob@gate:2222", ("-l", "bob", "-p", "2222", "-W", "[kv1]:22", "--", "gate")),
            ("bob@gate:2222", ("-l", "bob", "-p", "2222", "-W", "[kv1]:22", "--", "gate")),
            ("b@corp@gate", ("-l", "b@corp", "-W", "[kv1]:22", "--", "gate")),
            ("[::1]:2222", ("-p", "2222", "-W", "[kv1]:22", "--", "::1")),
            ("a,ssh://c@b:22,gate", ("-J", "a,ssh://c@b:22", "-W", "[kv1]:22", "--", "gate")),
            ("%n-a,%r@gate-%h", ("-l", "root", "-J", "kv1-a", "-W", "[kv1]:22", "--", "gate-kv1")),
            ("[fe80::1%%eth0]:2222", ("-p", "2222", "-W", "[kv1]:22", "--", "fe80::1%eth0")),
        ],
    )
    def test_a_jump_is_the_command_that_ssh_builds(
        self, tmp_path: Path, value: str, words: tuple[str, ...]
    ) -> None:
        proxy = route(tmp_path, f"Host kv1\n ProxyJump {value}\n User root\n").proxy
        assert proxy is not None
        config = ("-F", str(tmp_path / "config"))
        at = words.index("-W")
        assert proxy.argv == ("ssh", *words[:at], *config, *words[at:])

    @pytest.mark.parametrize(
        ("text", "goes_by"),
        [
            ("ProxyCommand nc %h %p\nProxyJump gate\n", "nc kv1 22"),
            ("ProxyJump none\nProxyCommand nc %h %p\n", "nc kv1 22"),
            ("Host kv1\n ProxyJump gate\nHost *\n ProxyCommand nc %h %p\n", "gate"),
            ("ProxyCommand none\n", None),
            ("ProxyJump none\n", None),
            ("HostName x\nUser bob\nHostKeyAlias k\nProxyCommand f %n %h %r %k %% %%h\n", "f kv1 x bob k % %h"),
        ],
    )  # fmt: skip
    def test_the_first_one_counts(self, tmp_path: Path, text: str, goes_by: str | None) -> None:
        proxy = route(tmp_path, text).proxy
        assert (None if proxy is None else proxy.via) == goes_by

    def test_a_command_runs_in_the_users_shell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHELL", "/bin/csh")
        proxy = route(tmp_path, "ProxyCommand nc %h %p\nProxyUseFdpass yes\n").proxy
        assert proxy is not None
        assert proxy.argv == ("/bin/csh", "-c", "exec nc kv1 22")
        assert proxy.passes_socket

    @pytest.mark.parametrize("command", ["nc %L", "nc %h %C", "nc %"])
    def test_a_token_that_ssh_refuses_is_refused(self, tmp_path: Path, command: str) -> None:
        with pytest.raises(HostError, match="ProxyCommand: unknown token %"):
            route(tmp_path, f"ProxyCommand {command}\n")

    def test_a_token_of_a_jump_that_ssh_refuses_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(HostError, match="ProxyJump: unknown token %C"):
            route(tmp_path, "ProxyJump gate-%C\n")

    def test_jumps_in_a_circle_are_refused(self, tmp_path: Path) -> None:
        """Ssh would start processes without end."""
        text = "Host kv1\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump a\n"
        with pytest.raises(HostError, match="ProxyJump is circular: kv1 via a via b via a"):
            route(tmp_path, text)
        with pytest.raises(HostError, match="loop via gate"):
            route(tmp_path, "Host *\n ProxyJump gate\n")
        text = "Host kv1\n ProxyJump %h-a\nHost kv1-a\n ProxyJump b\nHost b\n ProxyJump kv1-a\n"
        with pytest.raises(HostError, match="circular: kv1 via kv1-a via b via kv1-a"):
            route(tmp_path, text)


class TestIdentities:
    def test_tokens_and_home(self, tmp_path: Path) -> None:
        lines = ["~/.ssh/%r-%h", "%d/a b", "${HOME}/c", "/plain", "none"]
        text = "User bob\n" + "".join(f'IdentityFile "{line}"\n' for line in lines)
        home = os.path.expanduser(f"~{pwd.getpwuid(os.getuid()).pw_name}")  # noqa: PTH111
        results = route(tmp_path, text).identities
        expected = (f"{home}/.ssh/bob-kv1", f"{home}/a b", f"{os.environ['HOME']}/c", "/plain")
        assert results.files == expected
        assert not results.only

    def test_the_agent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSH_AUTH_SOCK", "/env")
        monkeypatch.setenv("MINE", "/mine")
        for value, path in [
            ("", "/env"), ("IdentityAgent none", None), ("IdentityAgent SSH_AUTH_SOCK", "/env"),
            ("IdentityAgent $MINE", "/mine"), ('IdentityAgent "/a b/agent"', "/a b/agent"),
        ]:  # fmt: skip
            assert route(tmp_path, value + "\n").identities.agent == path

    def test_identities_only_and_certificates(self, tmp_path: Path) -> None:
        results = route(tmp_path, "IdentitiesOnly yes\nCertificateFile %d/c-cert.pub\n").identities
        assert results.only
        assert results.agent == os.environ.get("SSH_AUTH_SOCK")
        assert [Path(name).name for name in results.certificates] == ["c-cert.pub"]
        assert not route(tmp_path, "PubkeyAuthentication no\n").identities.public_keys


class TestHostKeys:
    def test_names(self, tmp_path: Path) -> None:
        assert route(tmp_path, "", "KV1").host_keys.names == ("kv1",)
        assert route(tmp_path, "Port 2222\n").host_keys.names == ("[kv1]:2222", "kv1")
        assert route(tmp_path, "Port 2222\nHostKeyAlias lab\n").host_keys.names == ("lab",)
        assert route(tmp_path, "", "fe80::5%eth0").host_keys.names == ("fe80::5%eth0",)

    def test_files_with_blanks(self, tmp_path: Path) -> None:
        text = (
            f'UserKnownHostsFile "{tmp_path}/known hosts" {tmp_path}/b\nGlobalKnownHostsFile none\n'
        )
        results = route(tmp_path, text).host_keys
        assert results.user_files == (f"{tmp_path}/known hosts", f"{tmp_path}/b")
        assert results.global_files == ()
        named = route(tmp_path, text, known_hosts=str(tmp_path / "known hosts")).host_keys
        assert named.user_files == (f"{tmp_path}/known hosts",)

    def test_relative_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`ssh -G` prints names as they are, without quotes."""
        monkeypatch.chdir(tmp_path)
        text = f"UserKnownHostsFile kh1 kh2 {tmp_path}/c\nGlobalKnownHostsFile ~/g %d/h\n"
        results = route(tmp_path, text).host_keys
        assert results.user_files == ("kh1", "kh2", f"{tmp_path}/c")
        assert results.global_files == ("~/g", "%d/h")
        (tmp_path / "known hosts").touch()
        text = f'UserKnownHostsFile a "known hosts" "{tmp_path}/known hosts" b\n'
        results = route(tmp_path, text).host_keys
        assert results.user_files == ("a", "known hosts", f"{tmp_path}/known hosts", "b")
        named = route(tmp_path, "", known_hosts="not yet there")
        assert named.host_keys.user_files == ("not yet there",)

    @pytest.mark.parametrize(
        ("value", "policy"),
        [("ask", "strict"), ("yes", "strict"), ("accept-new", "accept-new"), ("no", "accept-new")],
    )
    def test_policies(self, tmp_path: Path, value: str, policy: str) -> None:
        text = f"StrictHostKeyChecking {value}\n"
        assert route(tmp_path, text).host_keys.policy == policy
        assert route(tmp_path, text, host_keys="strict").host_keys.policy == "strict"

    def test_signatures_of_authorities(self, tmp_path: Path) -> None:
        text = "CASignatureAlgorithms ssh-ed25519,rsa-sha2-512\n"
        assert route(tmp_path, text).host_keys.signatures == ("ssh-ed25519", "rsa-sha2-512")

    def test_localhost_is_believed_where_the_user_says_so(self, tmp_path: Path) -> None:
        text = "NoHostAuthenticationForLocalhost yes\n"
        assert not route(tmp_path, text, "127.0.0.1").host_keys.checked
        assert route(tmp_path, text, "10.0.0.1").host_keys.checked
        assert route(tmp_path, text + "Host 127.*\nProxyJump a\n", "127.0.0.1").host_keys.checked


def test_the_socket(tmp_path: Path) -> None:
    results = route(tmp_path, "AddressFamily inet6\nBindAddress ::1\nConnectTimeout 3\n")
    assert (results.family, results.bind_address) == (socket.AF_INET6, "::1")
    assert results.connect_timeout_s == results.greeting_timeout_s == 3
    jumps = route(tmp_path, "Host kv1\nProxyJump a\n")
    assert jumps.greeting_timeout_s > route(tmp_path, "").greeting_timeout_s


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (b"Host kv1\n Port x\n", "line 2: Bad number 'x'|Bad port 'x'", "ssh -G"),
        (b"Nonsense yes\n", "Bad configuration option: nonsense", "ssh -G"),
        (b"\xef\xbb\xbfHost kv1\n", "Bad configuration option", "byte order mark; remove it: sed"),
        (b'Include "other\n', "quote|unbalanced", "ssh -G"),
    ],
)
def test_what_ssh_refuses_is_quoted(tmp_path: Path, text: bytes, message: str, hint: str) -> None:
    with pytest.raises(HostError, match=message) as caught:
        route(tmp_path, text)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("option", ["IdentityFile", "CertificateFile", "key", "known_hosts"])
def test_the_home_of_an_unknown_user_is_an_error(tmp_path: Path, option: str) -> None:
    name = "~nobody-of-that-name/file"
    text, fields = (f"{option} {name}\n", {}) if option[0].isupper() else ("", {option: name})
    with pytest.raises(HostError, match="no user nobody-of-that-name"):
        route(tmp_path, text, **fields)
    assert route(tmp_path, "IdentityFile ~root/x\n").identities.files == ("/root/x",)


def test_a_connection_that_the_configuration_refuses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RefuseConnection, which the ssh of this machine may not know."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nprintf 'hostname kv1\\nrefuseconnection use the gate\\n'\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostError, match="refuses connections to kv1: use the gate"):
        route(tmp_path, "")


def test_options_of_a_session_do_not_matter(tmp_path: Path) -> None:
    """`ssh -G` without a command refuses the first one."""
    text = "ForkAfterAuthentication yes\nRemoteCommand top\nRequestTTY force\nSessionType none\nStdinNull yes\n"
    for part in (text, "ForkAfterAuthentication yes\nPort 2200\n"):
        assert route(tmp_path, part + "Port 2200\nIdentityFile /k/%h\n").port == 2200


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="nowhere"):
        resolve(Destination("kv1", config=str(tmp_path / "nowhere")))


def test_a_machine_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="no ssh program") as caught:
        resolve(Destination("kv1"))
    assert "apt-get install openssh-client" in (caught.value.hint or "")


def test_another_program_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostError, match=f"{tmp_path}/ssh -G prints no settings") as caught:
        resolve(Destination("kv1"))
    assert "openssh-client" in (caught.value.hint or "")


def test_doctor_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfrunner.experiment.preflight.doctor import examine

    monkeypatch.setenv("PATH", str(tmp_path))
    cluster = ClusterSpec.model_validate(
        {"name": "far", "transport": "ssh", "hosts": {"kv1": {"address": "192.0.2.1"}}}
        | {"engine_nodes": ["kv1"], "load_clients": ["kv1"]}
    )
    (problem,) = [finding for finding in examine(cluster, None) if finding.subject == "reached"]
    assert (problem.place, problem.grade) == ("kv1", "problem")
    assert "apt-get install openssh-client" in problem.remedy


def test_clients_go_where_the_configuration_leads(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host kv1\n  HostName 10.0.0.5\n")
    aliased = HostSpec(address="kv1", ssh_config=str(tmp_path / "config"))
    assert data_address(aliased) == "10.0.0.5"
    assert data_address(aliased.model_copy(update={"data_address": "10.1.0.5"})) == "10.1.0.5"


def test_the_decision_on_every_option_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "ssh.md"
    decided = {name.lower() for name in re.findall(r"`(\w+)", page.read_text())}
    done = subprocess.run(
        ["ssh", "-G", "-F", "/dev/null", "host"], capture_output=True, text=True, check=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    options = {line.split(" ")[0].lower() for line in done.stdout.splitlines()} - {"host"}
    assert len(options) > 70
    assert options <= decided, sorted(options - decided)


def test_an_address_that_does_not_answer_takes_no_time_from_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose IPv6 address leads nowhere is common; the other address may be far away."""
    tried: list[tuple[Any, float | None]] = []

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            tried.append((address, self.gettimeout()))
            clock.append(clock[-1] + (self.gettimeout() or 0))
            if address == "nowhere":
                raise TimeoutError

    clock = [0.0]
    stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    answer = [(*stream, "nowhere"), (*stream, "here")]
    monkeypatch.setattr(connection.time, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answer)
    connection.responsive_socket(route(tmp_path, "ConnectTimeout 3")).close()
    assert tried == [("nowhere", 3.0), ("here", 3.0)]


def _latin_1(directory: Path) -> dict[str, str]:
    """Return the variables of a Latin-1 locale, which is made in the directory."""
    argv = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(directory / "en_US.ISO-8859-1")]
    try:
        subprocess.run(argv, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs localedef and the sources of locales")
    return {"LOCPATH": str(directory), "LC_ALL": "en_US.ISO-8859-1"}


@pytest.mark.parametrize("option", ["ProxyCommand /bin/brücke %h", "Host kv1\n ProxyJump bridge"])
@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1"])
def test_names_are_bytes_in_every_locale(tmp_path: Path, encoding: str, option: str) -> None:
    """ssh_config has names in UTF-8; files and programs are opened by the same bytes."""
    locale = {"LC_ALL": "C"} if encoding == "ascii" else _latin_1(tmp_path)
    (tmp_path / "bekannte für").touch()
    config = tmp_path / "für hier"
    config.write_text(
        f'IdentityFile "{tmp_path}/schlüssel"\nIdentityFile "{tmp_path}/€-%h"\n'
        f'UserKnownHostsFile "{tmp_path}/bekannte für"\nIdentityAgent "{tmp_path}/ägent"\n'
        f"KnownHostsCommand /bin/böse %n %H\n{option}\n",
        encoding="utf-8",
    )
    program = (
        "import os, sys; from perfrunner.hosts.openssh import Destination, resolve\n"
        "route = resolve(Destination('kv1', config=sys.argv[1]))\n"
        "keys, login = route.host_keys, route.identities\n"
        "names = (*login.files, *keys.user_files, login.agent, *keys.command, *route.proxy.argv[1:])\n"
        "os.write(1, b'\\n'.join([sys.getfilesystemencoding().encode(), *map(os.fsencode, names)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(config)],
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(Path.cwd()), **locale},
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    proxy = ["-c", "exec /bin/brücke kv1"]
    if "Jump" in option:
        proxy = ["-F", str(config), "-W", "[kv1]:22", "--", "bridge"]
    assert done.stdout.decode("utf-8").split("\n") == [
        encoding,
        f"{tmp_path}/schlüssel",
        f"{tmp_path}/€-kv1",
        f"{tmp_path}/bekannte für",
        f"{tmp_path}/ägent",
        *("/bin/böse", "kv1", "%H"),
        *proxy,
    ]
