"""Compare where a connection goes with `ssh -G`, for generated configurations."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfrunner.errors import HostError
from perfrunner.hosts import openssh
from perfrunner.hosts.openssh import Destination, Route, resolve

# Names and values that meet often, so that sections match, overlap and contradict each other.
_hosts = st.sampled_from(["kv1", "kv2", "gate", "10.0.0.7"])
_patterns = st.sampled_from(["kv1", "kv2", "kv*", "*", "kv? !kv2", "!kv1 *", "10.0.0.*", "gate"])
_options = st.one_of(
    st.builds("HostName {}".format, st.sampled_from(["10.0.0.1", "%h.lab", "::1", '"10.0.0.2"'])),
    st.builds("Port {}".format, st.integers(1, 65535)),
    st.builds("User {}".format, st.sampled_from(["ann", "b@corp", '"c"', "Jenkins"])),
    st.builds("ProxyJump {}".format, st.sampled_from(
        ["none", "gate0", "x@gate0:2200", "ssh://y@gate0:22,gate9", "[::1]:33", "%r@gate-%n:22"])),
    st.builds("ProxyCommand {}".format, st.sampled_from(["none", "nc %h %p", "nc -x %r@%n %h:%p"])),
    st.builds("IdentityFile {}".format, st.sampled_from(["/k/one", "~/two", "%d/%r", '"/k/a b"', "none"])),
    st.builds("CertificateFile {}".format, st.sampled_from(["/k/one-cert.pub", "~/%h-cert.pub"])),
    st.builds("IdentitiesOnly {}".format, st.sampled_from(["yes", "no"])),
    st.builds("IdentityAgent {}".format, st.sampled_from(["none", "/agent", "~/%r.sock", "SSH_AUTH_SOCK"])),
    st.builds("UserKnownHostsFile {}".format, st.sampled_from(["/kh/a /kh/b", "none", "~/%h", "kh1 kh2", "kh1 /kh/b"])),
    st.builds("HostKeyAlias {}".format, st.sampled_from(["lab", "kv1"])),
    st.builds("StrictHostKeyChecking {}".format, st.sampled_from(["yes", "no", "ask", "accept-new"])),
)  # fmt: skip
_lines = st.builds(
    "{}{}{}".format, st.sampled_from(["", "  ", "\t"]), _options, st.sampled_from(["", " ", " # why"])
)  # fmt: skip
_heads = st.one_of(
    st.builds("Host {}".format, _patterns),
    st.builds("Match host {}".format, st.sampled_from(["kv1", "*", "10.0.0.1", "kv*,!kv2"])),
    st.builds("Match originalhost {}".format, _hosts),
    st.builds("Match user {}".format, st.sampled_from(["ann", "root"])),
    st.sampled_from(["Match all", "Match final all", "match exec false", "# Host kv1", ""]),
)
_configurations = st.lists(
    st.builds(lambda head, lines: [head, *lines], _heads, st.lists(_lines, max_size=4)), max_size=5
).map(lambda sections: "\n".join(line for section in sections for line in section) + "\n")


class _Opened(Exception):  # noqa: N818
    """Carries what a connection would have opened."""


@given(text=_configurations, host=_hosts)
@settings(max_examples=200)
def test_a_connection_goes_where_ssh_goes(
    text: str, host: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The endpoint, the proxy, the identities and the files of a connection, for 200 configurations."""
    path = tmp_path_factory.getbasetemp() / "generated"
    path.write_text(text)
    done = subprocess.run(
        ["ssh", "-G", "-F", str(path), host], capture_output=True, text=True, check=False, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        with pytest.raises(HostError):
            resolve(Destination(host, config=str(path)))
        return
    ssh: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        ssh.setdefault(line.split(" ")[0], []).append(line.partition(" ")[2])
    try:
        opened = _opened(resolve(Destination(host, config=str(path))))
    except HostError as error:
        # ssh finds a loop when the jump itself starts
        if not re.search("circular|loop", error.message):
            raise
        return
    single = {name: values[0] for name, values in ssh.items()}
    assert opened["user"] == single["user"]
    jump, command = single.get("proxyjump", "none"), single.get("proxycommand", "none")
    jump = jump.replace("%r", single["user"]).replace("%n", host)
    if jump != "none":
        *others, last = jump.split(",")
        argv = opened["argv"]
        assert argv[0] == "ssh"
        assert argv[argv.index("-W") + 1] == f"[{single['hostname']}]:{single['port']}"
        assert argv[argv.index("-F") + 1] == str(path)
        assert ("-J" in argv) == bool(others)
        assert last.rpartition("@")[2].startswith((argv[-1], f"[{argv[-1]}]"))
    elif command != "none":
        expected = command.replace("%h", single["hostname"]).replace("%p", single["port"])
        expected = expected.replace("%r", single["user"]).replace("%n", host)
        assert opened["argv"][1:] == ("-c", f"exec {expected}")
    else:
        assert opened["address"] == (single["hostname"], int(single["port"]))
    home = pwd.getpwuid(os.getuid()).pw_dir
    names = [name for name in ssh.get("identityfile", []) if name != "none"]
    files = [name.replace("%d", home).replace("%r", single["user"]) for name in names]
    assert opened["files"] == [name.replace("~", home, 1) for name in files]
    assert opened["only"] == (single["identitiesonly"] == "yes")
    agent = {"none": None, "SSH_AUTH_SOCK": os.environ.get("SSH_AUTH_SOCK")}
    default = os.environ.get("SSH_AUTH_SOCK")
    named = single.get("identityagent")
    assert opened["agent"] == (default if named is None else agent.get(named, named))
    known = [name for name in single["userknownhostsfile"].split(" ") if name != "none"]
    assert opened["known_hosts"][: len(known)] == known
    host_name = single["hostname"].lower()
    with_port = host_name if single["port"] == "22" else f"[{host_name}]:{single['port']}"
    assert opened["looked_up"] == single.get("hostkeyalias", with_port)


def _opened(results: Route) -> dict[str, Any]:
    """Return what HostConnection opens on a route, read at the boundaries: the socket, the process, the login."""
    from perfrunner.hosts import connection

    seen: dict[str, Any] = {}

    class Known:
        has_authority = False

        def __init__(self, host_keys: openssh.HostKeys) -> None:
            seen["known_hosts"] = [*host_keys.user_files, *host_keys.global_files]
            seen["looked_up"] = host_keys.names[0]

        def types(self) -> list[str]:
            return []

    class Login:
        def __init__(self, user: str, identities: openssh.Identities) -> None:
            seen["user"] = user
            seen["files"] = list(identities.files)
            seen["only"], seen["agent"] = identities.only, identities.agent

    def connect(**how: Any) -> None:
        assert not how["allow_agent"]
        assert not how["look_for_keys"]
        assert (how["hostname"], how["port"], how["username"]) == (
            results.host,
            results.port,
            results.user,
        )
        raise _Opened

    def proxy(wanted: openssh.Proxy, timeout_s: float) -> Any:
        seen["argv"] = wanted.argv
        return _Closed()

    def addresses(host: str, port: int, *_: Any) -> list[Any]:
        seen["address"] = (host, port)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "KnownHosts", Known)
        patch.setattr(connection, "OpenSshLogin", Login)
        patch.setattr(connection, "ProxyProcess", proxy)
        patch.setattr(
            connection,
            "responsive_socket",
            lambda route: addresses(route.host, route.port) or _Closed(),
        )
        link = connection.HostConnection(results)
        patch.setattr(link.client, "connect", connect)
        with pytest.raises(_Opened):
            link.open()
    return seen


class _Closed:
    def __init__(self) -> None:
        self.sock = self

    def close(self) -> None:
        pass
