"""TLS: documents and passwords, clients without a certificate, the tools, and replication."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire import Wire, frame, set_frame

from perfrunner.experiment.trial.vbucket_map import cluster_config
from tests.support.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program"),
]

SASL_AUTH, SASL_LIST = 0x21, 0x20


class Certificates:
    """An authority, and certificates of it for the server and for a client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", "ca.key", "-out", "ca.pem",
        )  # fmt: skip
        for name in ("server", "client"):
            self._openssl(
                "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", f"{name}.key", "-out", f"{name}.csr",
            )  # fmt: skip
            self._openssl(
                "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-days", "2", "-copy_extensions", "copy", "-out", f"{name}.pem",
            )  # fmt: skip

    def __getitem__(self, name: str) -> str:
        return str(self.directory / name)

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def serve(start_engine: Callable[..., Any], certificates: Certificates) -> Callable[..., int]:
    """serve("--flag", ...) starts an engine with TLS and gives its TLS port."""

    def start(*flags: str) -> int:
        return start_with_tls(start_engine, certificates, *flags)[1]

    return start


def start_with_tls(
    start_engine: Callable[..., Any], certificates: Certificates, *flags: str
) -> tuple[Any, int]:
    """Start an engine with TLS, and return it and its TLS port."""
    port = free_port()
    files = ("--tls-cert", certificates["server.pem"], "--tls-key", certificates["server.key"])
    flags = (*files, "--tls-port", str(port), *flags)
    return start_engine(*flags, users={"ann": "secret"}), port


def connect(port: int, certificates: Certificates, client: str = "") -> Wire:
    context = ssl.create_default_context(cafile=certificates["ca.pem"])
    if client:
        context.load_cert_chain(certificates[f"{client}.pem"], certificates[f"{client}.key"])
    wire = Wire(port, timeout=60)
    wire._sock = context.wrap_socket(wire._sock, server_hostname="127.0.0.1")
    return wire


def log_in(wire: Wire) -> None:
    assert wire.ask(SASL_AUTH, b"PLAIN", b"\0ann\0secret").status == 0


def test_documents_of_all_sizes_come_back(
    serve: Callable[..., int], certificates: Certificates
) -> None:
    with connect(serve(), certificates) as wire:
        assert b"PLAIN" in wire.ask(SASL_LIST).value
        log_in(wire)
        wire.hello("select_bucket")
        assert wire.ask(0x89, b"default").status == 0
        sizes = [0, 1, 1000, 16 << 10, 70_000, 1 << 20, 5 << 20]
        for size in sizes:
            wire.send(set_frame(b"k%d" % size, bytes(range(256)) * (size // 256 + 1)))
            assert wire.answer().status == 0
        # Many at once: more than one record, and more than one read of the server.
        wire.send(b"".join(frame(0x00, b"k%d" % size) for size in sizes for _ in range(3)))
        for size in sizes:
            for _ in range(3):
                assert wire.answer().value == bytes(range(256)) * (size // 256 + 1)


def test_a_pipeline_longer_than_a_record_is_answered(
    serve: Callable[..., int], certificates: Certificates
) -> None:
    with connect(serve(), certificates) as wire:
        log_in(wire)
        wire.send(b"".join(set_frame(b"k%d" % n, b"v" * 500, opaque=n) for n in range(5000)))
        for number in range(5000):
            answer = wire.answer()
            assert (answer.status, answer.opaque) == (0, number)


def test_a_client_needs_a_certificate_where_an_authority_is_named(
    serve: Callable[..., int], certificates: Certificates
) -> None:
    port = serve("--tls-client-ca", certificates["ca.pem"])
    with connect(port, certificates, "client") as wire:
        log_in(wire)
    with (
        pytest.raises(OSError, match=r"certificate|reset|EOF|closed"),
        connect(port, certificates) as wire,
    ):
        wire.ask(SASL_LIST)  # TLS 1.3 refuses it after the client's half of the handshake


def test_what_is_no_tls_ends_that_connection_only(
    serve: Callable[..., int], certificates: Certificates
) -> None:
    port = serve()
    with Wire(port) as plain:
        plain.send(frame(0x0A))
        with contextlib.suppress(ConnectionResetError):
            while plain._sock.recv(1000):  # an alert, and the end
                pass
    with connect(port, certificates) as wire:
        log_in(wire)


def client_hello() -> bytes:
    """The first message of a client, which costs a peer nothing to send again."""
    hello = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="a")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return hello.read()


def cpu_ticks(process: int) -> dict[str, int]:
    """Return the CPU time of each thread by name."""
    ticks: dict[str, int] = {}
    for thread in Path(f"/proc/{process}/task").iterdir():
        name, fields = (thread / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        user, system = fields.split()[11:13]
        ticks[name] = ticks.get(name, 0) + int(user) + int(system)
    return ticks


def test_handshakes_take_no_time_of_other_connections(
    start_engine: Callable[..., Any], certificates: Certificates
) -> None:
    """The private key costs a millisecond each time: hundreds at once would stop the other clients of a thread."""
    engine, port = start_with_tls(start_engine, certificates, "--threads", "1")
    hello = client_hello()
    for _ in range(10):
        with contextlib.ExitStack() as stack:
            peers = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(50)
            ]
            for peer in peers:
                peer.sendall(hello)
            for peer in peers:
                peer.settimeout(PATIENCE_S)
                assert peer.recv(1) == b"\x16"
    ticks = cpu_ticks(engine.process.pid)
    assert ticks.get("tls_handshakes", 0) > ticks["front-end-0"]


def test_strangers_in_the_middle_of_a_handshake_hold_a_bounded_memory(
    start_engine: Callable[..., Any], certificates: Certificates
) -> None:
    """OpenSSL allocates the 128 KiB that a first message announces."""
    engine, port = start_with_tls(start_engine, certificates, "--param", "max_buffered_mb=2")
    announced = 128 << 10
    begin = b"\x01" + announced.to_bytes(3, "big") + b"\x03\x03"
    record = b"\x16\x03\x01\x40\x00" + begin.ljust(16 << 10, b"a")
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            peer.sendall(record)
        wire = stack.enter_context(Wire(engine.port))
        log_in(wire)
        until(lambda: int(wire.stats()["conn_buffer_limit_closes"]) >= 40 - (2 << 20) // announced)


def test_a_handshake_has_a_time_limit_where_no_login_is_needed(
    start_engine: Callable[..., Any], certificates: Certificates
) -> None:
    port = free_port()
    start_engine(
        "--tls-port", str(port), "--tls-cert", certificates["server.pem"],
        "--tls-key", certificates["server.key"], "--param", "login_timeout_s=1",
    )  # fmt: skip
    for first in (b"", client_hello()[:100], client_hello()):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
            peer.sendall(first)
            with contextlib.suppress(ConnectionResetError):
                while peer.recv(1000):
                    pass
    with connect(port, certificates) as wire:
        until(lambda: int(wire.stats()["conn_overdue_closes"]) == 3)


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key"])
def test_a_port_needs_certificate_and_key(
    missing: str, kv_engine: Path, certificates: Certificates
) -> None:
    flags = {
        "--tls-cert": certificates["server.pem"],
        "--tls-key": certificates["server.key"],
        "--tls-port": "0",
    }
    del flags[missing]
    command = [str(kv_engine), *(part for flag in flags.items() for part in flag)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert result.returncode == 2
    assert missing in result.stderr


def test_a_key_that_does_not_fit_is_refused(kv_engine: Path, certificates: Certificates) -> None:
    command = [
        str(kv_engine), "--port", "0", "--tls-port", "0",
        "--tls-cert", certificates["server.pem"], "--tls-key", certificates["client.key"],
    ]  # fmt: skip
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert result.returncode == 2
    assert "client.key" in result.stderr


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o644])
def test_a_key_that_others_can_access_is_refused(
    mode: int, kv_engine: Path, certificates: Certificates, tmp_path: Path
) -> None:
    key = tmp_path / "shown.key"
    shutil.copyfile(certificates["client.key"], key)
    key.chmod(mode)
    shown = [f"--tls-cert={certificates['client.pem']}", f"--tls-key={key}"]
    programs = {
        "kv_engine": ["--port=0", "--tls-port=0", f"--data-dir={tmp_path / 'data'}"],
        "kvctl": ["stat", f"--tls-ca={certificates['ca.pem']}"],
        "pillowfight": [f"--tls-ca={certificates['ca.pem']}"],
    }
    for program, flags in programs.items():
        result = subprocess.run(
            [str(kv_engine.parent / program), *flags, *shown],
            check=False, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert result.returncode == 2, program
        assert str(key) in result.stderr
        assert "chmod 600" in result.stderr


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_a_key_of_its_owner_is_accepted(
    mode: int, serve: Callable[..., int], tools: Tools, certificates: Certificates, tmp_path: Path
) -> None:
    key = tmp_path / "own.key"
    shutil.copyfile(certificates["client.key"], key)
    key.chmod(mode)
    shown = [f"--tls-cert={certificates['client.pem']}", f"--tls-key={key}"]
    group_may_read = key.stat().st_uid == 0
    expected = 2 if mode == 0o640 and not group_may_read else 0
    done = tools.run("kvctl", serve(), "stat", *shown)
    assert done.returncode == expected, done.stderr


class Tools:
    """The programs that are built next to the engine, as user ann, over TLS."""

    def __init__(self, bin_dir: Path, directory: Path, certificates: Certificates) -> None:
        self.bin_dir, self.ca = bin_dir, certificates["ca.pem"]
        self.password = directory / "password"
        self.password.write_text("secret")
        self.login = directory / "login.json"
        self.login.write_text('{"ann": "secret"}')
        self.login.chmod(0o600)

    def run(
        self, program: str, port: int, *arguments: str, host: str = "127.0.0.1"
    ) -> subprocess.CompletedProcess[str]:
        command = [
            str(self.bin_dir / program), f"--host={host}", f"--port={port}", "--user=ann",
            f"--password-file={self.password}", *arguments,
        ]  # fmt: skip
        if not any(argument.startswith("--tls-ca=") for argument in arguments):
            command.append(f"--tls-ca={self.ca}")
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def fill(self, port: int, documents: int, *arguments: str) -> None:
        """Documents of 1 to 100 000 bytes, read back once each."""
        done = self.run(
            "pillowfight", port, "--populate-only", f"--num-items={documents}",
            "--min-size=1", "--max-size=100000", *arguments,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def documents(self, port: int, *arguments: str) -> dict[str, tuple[int, int]]:
        """By vBucket: how many documents, and their digest."""
        done = self.run("kvctl", port, "digest", *arguments)
        assert done.returncode == 0, done.stderr
        return {
            vbucket: (held["documents"], held["digest"])
            for vbucket, held in json.loads(done.stdout).items()
        }


@pytest.fixture
def tools(kv_engine: Path, tmp_path: Path, certificates: Certificates) -> Tools:
    return Tools(kv_engine.parent, tmp_path, certificates)


def test_the_tools_speak_tls(serve: Callable[..., int], tools: Tools) -> None:
    port = serve("--vbuckets", "4")
    tools.fill(port, 300)
    held = tools.documents(port)
    assert sum(documents for documents, _ in held.values()) == 300
    mixed = tools.run("pillowfight", port, "--num-items=300", "--num-ops=2000", "--window=4")
    assert mixed.returncode == 0, mixed.stderr


def test_the_tools_refuse_a_server_that_nobody_vouches_for(
    serve: Callable[..., int], tools: Tools, tmp_path: Path
) -> None:
    port = serve()
    strangers = Certificates(tmp_path)
    for program in ("kvctl", "pillowfight"):
        arguments = ["stat"] if program == "kvctl" else []
        done = tools.run(program, port, f"--tls-ca={strangers['ca.pem']}", *arguments)
        assert done.returncode == 1
        assert "certificate" in done.stderr
    other_name = tools.run("kvctl", port, "stat", host="localhost")  # it names 127.0.0.1 only
    assert other_name.returncode == 1
    assert "certificate" in other_name.stderr


def test_the_tools_show_a_certificate(
    serve: Callable[..., int], tools: Tools, certificates: Certificates
) -> None:
    port = serve("--tls-client-ca", certificates["ca.pem"])
    assert tools.run("kvctl", port, "stat").returncode == 1
    shown = [f"--tls-cert={certificates['client.pem']}", f"--tls-key={certificates['client.key']}"]
    assert tools.run("kvctl", port, "stat", *shown).returncode == 0


def test_a_replica_follows_over_tls(
    serve: Callable[..., int],
    start_engine: Callable[..., Any],
    tools: Tools,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    port = serve("--vbuckets", "4", "--tls-client-ca", certificates["ca.pem"])
    shown = [f"--tls-cert={certificates['client.pem']}", f"--tls-key={certificates['client.key']}"]
    tools.fill(port, 300, *shown)
    replica = start_engine(
        "--vbuckets", "4", "--data-dir", str(tmp_path / "replica"),
        "--replicate-from", f"127.0.0.1:{port}", "--replicate-login", str(tools.login),
        "--replicate-tls-ca", certificates["ca.pem"],
        "--tls-cert", certificates["client.pem"], "--tls-key", certificates["client.key"],
    )  # fmt: skip

    def copies() -> dict[str, tuple[int, int]]:
        done = subprocess.run(
            [str(tools.bin_dir / "kvctl"), f"--port={replica.port}", "digest"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        held = json.loads(done.stdout)
        return {number: (single["documents"], single["digest"]) for number, single in held.items()}

    until(lambda: copies() == tools.documents(port, *shown))


def test_a_replica_refuses_a_source_that_nobody_vouches_for(
    serve: Callable[..., int], start_engine: Callable[..., Any], tools: Tools, tmp_path: Path
) -> None:
    port = serve()
    strangers = Certificates(tmp_path)
    replica = start_engine(
        "--data-dir", str(tmp_path / "replica"), "--replicate-from", f"127.0.0.1:{port}",
        "--replicate-login", str(tools.login), "--replicate-tls-ca", strangers["ca.pem"],
    )  # fmt: skip
    until(lambda: "certificate is refused" in replica.log.read_text())
    with Wire(replica.port) as wire:
        assert wire.stats(b"replication")["connected"] == "false"


def test_a_cluster_map_names_the_ports_for_tls(
    start_engine: Callable[..., Any], tools: Tools, certificates: Certificates, tmp_path: Path
) -> None:
    """Its plain ports are closed ones here: any client that used them would fail."""
    ports, rows = [free_port(), free_port()], [[0, 1], [1, 0]] * 2
    for number, port in enumerate(ports):
        start_engine(
            "--vbuckets", "4", "--data-dir", str(tmp_path / f"node-{number}"),
            "--tls-port", str(port), "--replicate-login", str(tools.login),
            "--tls-cert", certificates["server.pem"], "--tls-key", certificates["server.key"],
            "--replicate-tls-ca", certificates["ca.pem"], users={"ann": "secret"},
        )  # fmt: skip
    for number, port in enumerate(ports):
        config = json.loads(cluster_config([("127.0.0.1", 1)] * 2, rows, this=number))
        for node, tls_port in zip(config["nodesExt"], ports, strict=True):
            node["services"]["kvSSL"] = tls_port
        file = tmp_path / f"config-{number}.json"
        file.write_text(json.dumps(config))
        for verb in ("set-states", "set-config"):
            done = tools.run("kvctl", port, verb, f"--config={file}")
            assert done.returncode == 0, done.stderr
    tools.fill(ports[0], 200)
    until(lambda: tools.documents(ports[0]) == tools.documents(ports[1]))
    assert sum(documents for documents, _ in tools.documents(ports[0]).values()) == 200


def test_the_first_map_names_the_port_for_tls(
    serve: Callable[..., int], certificates: Certificates
) -> None:
    port = serve()
    with connect(port, certificates) as wire:
        log_in(wire)
        config = json.loads(wire.ask(0xB5).value)
    assert config["nodesExt"][0]["services"]["kvSSL"] == port
