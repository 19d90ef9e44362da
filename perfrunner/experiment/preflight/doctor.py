"""Examine the hosts of a spec and list what is missing, noisy or wrongly configured (`perfrunner doctor`)."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.builders import Platform, platform_here, platform_of
from perfrunner.build.remote import tools_on
from perfrunner.build.tools import build_environment, find_toolchain, require_cargo
from perfrunner.errors import HostError, PerfrunnerError
from perfrunner.experiment.plan import profiled_cases
from perfrunner.experiment.preflight.health import Finding, host_findings, watch
from perfrunner.experiment.preflight.requirements import SDK_SUBJECT as SDK
from perfrunner.experiment.preflight.requirements import cpu_findings, describe, sdk_findings
from perfrunner.hosts import Host, Process, data_address, open_host, scripts
from perfrunner.hosts.facts import usable_memory
from perfrunner.measure.cpu_profile import check_perf
from perfrunner.paths import with_home
from perfrunner.spec.allocator import is_crate
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.model import Spec

TRIES = 5
TIMEOUT_S = 3
SLOW_MS = 5.0  # round trip above which a pair of hosts gets a warning
NARROW_MB_S = 100.0  # about 1 Gbit/s, which 400 000 operations/s of 256 B fill
SENDING_S = 0.5
COUNTING_S = 3.0  # at most; data still buffered on a slow link is ignored
LISTENS_S, ENDS_S = 5.0, 10.0
_LOGS = "doctor"
_OUT, _ERR = f"{_LOGS}/peer.out", f"{_LOGS}/peer.err"

# Perl is used because it is part of every Debian system and no program of ours is deployed yet. /proc/uptime is its
# finest clock. The receiver measures the time, because bytes still arrive from buffers after the sender has ended. A
# single process receives everything: on a busy host, starting another one could take as long as the transfer.
_COUNT = rf"""
use IO::Socket::IP;
alarm 30;
$| = 1;
sub now {{ open my $clock, "<", "/proc/uptime" or die "$!\n"; return (split " ", <$clock>)[0] }}
sub count {{
  my ($from, $bytes, $data, $began) = (shift, 0, "");
  while (my $read = sysread($from, $data, 1 << 20)) {{
    $began //= now;
    $bytes += $read;
    last if now() - $began > {COUNTING_S};
  }}
  print "$bytes ", now() - $began, "\n" if $bytes;
  return $bytes;
}}
"""
# Prints its port, receives from the first connection that sends anything, then sends to the next connection for
# ARGV[1] seconds.
_PEER = f"""{_COUNT}
my $port = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 0, Listen => 16) or die "$@\\n";
print $port->sockport, "\\n";
1 until count($port->accept or die "$!\\n");
my $to = $port->accept or die "$!\\n";
my ($zeros, $until) = ("\\0" x (1 << 20), now() + $ARGV[1]);
while (now() < $until) {{ defined syswrite($to, $zeros) or last }}
"""
_TAKE = f"""{_COUNT}
count(IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1]) or die "$@\\n") or die "no data received\\n";
"""


def pair_findings(cluster: ClusterSpec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Yield a network finding for each pair of open hosts that exchange data in a run."""
    wanted = [
        *itertools.product(cluster.load_clients, cluster.engine_nodes),
        *itertools.permutations(cluster.engine_nodes, 2),
    ]
    for here, there in dict.fromkeys(wanted):
        if here != there and here in hosts and there in hosts:
            yield _pair(cluster, hosts, here, there)


def _pair(cluster: ClusterSpec, hosts: Mapping[str, Host], here: str, there: str) -> Finding:
    """Check that `here` reaches `there`, and how fast.

    The check uses a port of its own, as engines do, because a data network may block the port of sshd. It uses
    the port of sshd and measures no throughput if another run is active.
    """
    host, spec = hosts[here], cluster.hosts[there]
    address = data_address(spec)
    place = f"{here} to {there}"
    with contextlib.ExitStack() as stack:
        peer: _Peer | None = None
        unmeasured = ""
        if host.locked and hosts[there].locked:  # traffic would disturb another run
            try:
                peer = stack.enter_context(_peer(hosts[there], address))
            except HostError as error:
                unmeasured = f"; throughput not measured: {error.message}"
        port = (spec.port or 22) if peer is None else peer.port
        arguments = [address, str(port), str(TRIES), str(TIMEOUT_S)]
        done = host.transport.run(["bash", "-c", scripts.CONNECT, "bash", *arguments], check=False)
        if done.exit:
            lines = done.stderr.strip().splitlines()
            why = lines[-1] if lines else f"no answer in {TIMEOUT_S} s"
            remedy = (
                "check route and firewall (engines use other ports than sshd);"
                " clients connect to data_address of the cluster file"
            )
            text = f"cannot connect to {address} port {port}: {why}"
            return Finding(place, "network", "problem", text, remedy)
        idle = host.transport.run(
            ["bash", "-c", scripts.CONNECT_NOWHERE, "bash", *arguments]
        ).stdout.split()
        # Use the minimum of each: other work on the hosts only makes an attempt slower.
        took = max(0, min(map(int, done.stdout.split())) - min(map(int, idle))) / 1000.0
        remedies = ["use hosts of one network: every batch waits this long for its answers"]
        remedies = remedies if took > SLOW_MS else []
        text = f"{address} answers in {took:.1f} ms"
        if peer is not None:
            try:
                takes, gives = peer.takes_mb_s(host), peer.gives_mb_s(host)
                text += f", takes {_shown(takes)} MB/s and gives {_shown(gives)} MB/s"
                if min(takes, gives) < NARROW_MB_S:
                    remedies.append(
                        "use a faster network or smaller values: the network may limit the load"
                    )
            except HostError as error:
                unmeasured = f"; throughput not measured: {error.message}"
        if unmeasured:
            remedies.append(
                "check that data_address belongs to the host and that perl is installed there"
            )
    return Finding(
        place, "network", "warning" if remedies else "ok", text + unmeasured, "; ".join(remedies)
    )


def _shown(rate: float) -> str:
    """Format a rate; slow links get two digits (1 Mbit/s is 0.12 MB/s, not 0)."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


@dataclass(frozen=True)
class _Peer:
    """A process on `host` that receives data, measures the rate, and then sends data."""

    host: Host
    process: Process
    address: str
    port: int

    def takes_mb_s(self, client: Host) -> float:
        """Measure the rate at which a client sends to the peer for SENDING_S. Call it once. Raises HostError."""
        arguments = [self.address, str(self.port), str(SENDING_S)]
        client.transport.run(["bash", "-c", scripts.SEND_ZEROS, "bash", *arguments])
        return _mb_s(_printed(self.host, self.process, 3, ENDS_S)[1:])

    def gives_mb_s(self, client: Host) -> float:
        """Measure the rate at which the peer sends to a client. Call it after `takes_mb_s`.

        The client opens the connection, as for the response to a GET.
        """
        done = client.transport.run(["perl", "-e", _TAKE, self.address, str(self.port)])
        return _mb_s(done.stdout.split())


@contextlib.contextmanager
def _peer(host: Host, address: str) -> Iterator[_Peer]:
    """Run a peer on the host; remove its files afterwards. Raises HostError if it cannot listen on `address`."""
    host.transport.remove_tree(_LOGS)
    with contextlib.ExitStack() as stack:
        stack.callback(host.transport.remove_tree, _LOGS)
        process = host.start(
            ["perl", "-e", _PEER, address, str(SENDING_S)],
            name="doctor-peer",
            log_stdout=_OUT,
            log_stderr=_ERR,
        )
        stack.callback(process.stop, 1.0)
        try:
            (port,) = _printed(host, process, 1, LISTENS_S)
        except HostError as error:
            raise HostError(f"cannot listen on {address}: {error.message}") from None
        yield _Peer(host, process, address, int(port))


def _printed(host: Host, process: Process, count: int, patience_s: float) -> list[str]:
    """Wait until the peer has printed `count` words and return them. Raises HostError if it ends or takes too long."""
    until = time.monotonic() + patience_s
    while len(output := host.transport.read_text(_OUT).split()) < count:
        if process.poll() is not None or time.monotonic() > until:
            why = host.transport.read_text(_ERR).strip()
            raise HostError(why or f"no output within {patience_s:.0f} s")
        time.sleep(0.02)
    return output


def _mb_s(counted: Sequence[str]) -> float:
    """Return MB/s from [bytes, seconds]; the clock ticks every 10 ms, so very short times are replaced."""
    received, seconds = map(float, counted)
    return received / max(seconds, SENDING_S / 2) / 1e6


CONTROLLER = "this machine"
ANY_CRATE = "jemalloc"
MOST_OF_MEMORY = 0.8  # the bucket quota may use this share of the memory


def examine(
    cluster: ClusterSpec, spec: Spec | None, cache_dir: Path | None = None
) -> Iterator[Finding]:
    """Examine this machine and all hosts of the cluster; yield each finding as soon as it is known.

    A host takes about a second. `cache_dir` is the build cache of this machine.
    """
    built_for: Platform | None = None
    if cache_dir is not None:
        yield from _directories(cache_dir)
    if cluster.build_host is None:
        yield from _tools(spec)
        built_for = platform_here()
    else:
        findings, built_for = _build_host(cluster, cluster.build_host, spec)
        yield from findings
    facts: dict[str, Mapping[str, object]] = {}
    machines: set[str] = set()  # several hosts of a cluster may be one
    with contextlib.ExitStack() as stack:
        hosts: dict[str, Host] = {}
        for name in dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)):
            try:
                spec_of = cluster.hosts[name]
                host = stack.enter_context(
                    open_host(spec_of, cluster.transport, name=name, run_id="doctor")
                )
                yield Finding(name, "reached", "ok", f"{host.work_dir} is writable")
                boot_id = host.boot_id()
                yield from _host(host, name, built_for, machine=boot_id not in machines)
                machines.add(boot_id)
                facts[name] = host.facts()
                hosts[name] = host
            except PerfrunnerError as error:
                yield Finding(name, "reached", "problem", error.message, error.hint or "")
        yield from _or_problem(cluster.name, "network", pair_findings(cluster, hosts))
        if spec is not None:
            yield from _or_problem(cluster.name, SDK, sdk_findings(spec, hosts))
            yield from _profiling(spec, hosts)
    if spec is not None and facts.keys() >= set(cluster.engine_nodes):
        yield from _suits(spec, facts)


def _or_problem(place: str, subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings; if the examination fails, yield its error as a problem."""
    try:
        yield from findings
    except PerfrunnerError as error:
        yield Finding(place, subject, "problem", error.message, error.hint or "")


def _directories(cache_dir: Path) -> Iterator[Finding]:
    """Check that the temporary directory and the build cache of this machine are writable."""
    named = os.environ.get("TMPDIR")
    if named and not os.access(named, os.W_OK | os.X_OK):
        text = f"TMPDIR is {named}, which is not a writable directory"
        yield Finding(
            CONTROLLER,
            "TMPDIR",
            "problem",
            text,
            f"create it with mkdir -p {named}, or unset TMPDIR",
        )
    cache = with_home(cache_dir).absolute()
    place = next(path for path in (cache, *cache.parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        text = f"the build cache {cache} is not writable"
        remedy = "choose another directory with --cache DIR or PERFRUNNER_CACHE"
        yield Finding(CONTROLLER, "build cache", "problem", text, remedy)


def _tools(spec: Spec | None) -> Iterator[Finding]:
    env = build_environment()
    try:
        tools = find_toolchain(env)
        text = f"{tools.compiler}, cmake {tools.cmake_version}, {tools.linker}"
        yield Finding(CONTROLLER, "build tools", "ok", text)
    except PerfrunnerError as error:
        yield Finding(CONTROLLER, "build tools", "problem", error.message, error.hint or "")
    allocator = _crate(spec)
    try:
        require_cargo(allocator or ANY_CRATE, env)
    except PerfrunnerError as error:
        yield _cargo(CONTROLLER, allocator, error.message, error.hint or "")
    else:
        yield _cargo(CONTROLLER, allocator, "", "")


def _build_host(
    cluster: ClusterSpec, name: str, spec: Spec | None
) -> tuple[list[Finding], Platform | None]:
    """Return the findings about the build tools, and the platform of the host (None if unreachable)."""
    findings: list[Finding] = []
    built_for: Platform | None = None
    try:
        spec_of = cluster.hosts[name]
        with open_host(spec_of, cluster.transport, name=name, run_id="doctor") as host:
            built_for = platform_of(name, host.facts())
            allocator = _crate(spec)
            tools = tools_on(host, allocator or ANY_CRATE)
        text = f"{tools['compiler']}, cmake {tools['cmake']}, {tools['linker']}"
        findings.append(Finding(name, "build tools", "ok", text))
        findings.append(_cargo(name, allocator, tools["cargo"], tools["hint"] or ""))
    except PerfrunnerError as error:
        findings.append(Finding(name, "build tools", "problem", error.message, error.hint or ""))
    return findings, built_for


def _crate(spec: Spec | None) -> str:
    """Return an allocator of the spec that cargo builds, or an empty string."""
    wanted = [] if spec is None else [v.allocator.name for v in spec.variants.values()]
    return min((name for name in wanted if is_crate(name)), default="")


def _cargo(place: str, allocator: str, error: str, remedy: str) -> Finding:
    if not error:
        return Finding(place, "cargo", "ok", "can build the allocators")
    return Finding(place, "cargo", "problem" if allocator else "warning", error, remedy)


def _host(host: Host, name: str, built_for: Platform | None, *, machine: bool) -> Iterator[Finding]:
    try:
        host.lock(machine=machine)
    except PerfrunnerError as error:
        yield Finding(name, "free", "problem", error.message, error.hint or "")
    else:
        yield Finding(name, "free", "ok", "no other run is active")
        if left := host.processes():
            text = f"an earlier run left {len(left)} processes or registry entries"
            yield Finding(name, "leftovers", "warning", text, "the next run stops them")
    yield from host_findings(name, host.facts(), built_for)
    yield from watch(host, name)


def _profiling(spec: Spec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Check that perf can record on the engine nodes, if a workload requests profiles."""
    cases = profiled_cases(spec)
    for name in spec.cluster.engine_nodes if cases else ():
        if name not in hosts:
            continue
        host = hosts[name]
        try:
            event = check_perf(host.transport, host.work_dir, cases[0][0])
            yield Finding(name, "perf", "ok", f"records {event}")
        except PerfrunnerError as error:
            text = error.message.removeprefix(f"{host.name}: ")
            yield Finding(name, "perf", "problem", text, error.hint or "")


def _suits(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """Check the requirements of the spec: CPUs, preconditions and memory."""
    place = f"spec {spec.name}"
    yield from cpu_findings(spec, facts)
    description = describe(spec, {}, facts, trials=0)
    for name, holds in description.facts["preconditions"].items():
        if holds:
            yield Finding(place, name, "ok", "holds")
    for warned in description.warnings:
        yield Finding(place, "preconditions", "warning", warned.message, warned.remedy)
    for name in spec.cluster.engine_nodes:
        memory = usable_memory(facts[name])
        quota = spec.engine.quota_mb * 2**20
        if memory is not None:
            text = f"bucket quota {quota / 1e9:.1f} GB of {memory / 1e9:.1f} GB on {name}"
            if quota > MOST_OF_MEMORY * memory:
                yield Finding(
                    place, "memory", "warning", text, "lower it with --set engine.quota_mb=N"
                )
            else:
                yield Finding(place, "memory", "ok", text)
