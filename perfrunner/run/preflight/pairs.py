"""Whether the hosts of a cluster reach each other, how long a packet takes and how many fit: clients to nodes, nodes
to nodes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfrunner.cluster import Host, Process, data_address, scripts
from perfrunner.errors import HostError
from perfrunner.run.preflight.health import Finding
from perfrunner.spec.cluster import ClusterSpec

TRIES = 5
TIMEOUT_S = 3
SLOW_MS = 5.0  # between hosts that are to be measured together
NARROW_MB_S = 100.0  # about a gigabit; 400 000 operations of 256 B a second fill it
SENDING_S = 0.5
LISTENS_S, ENDS_S = 5.0, 10.0
_LOGS = "doctor"
_OUT, _ERR = f"{_LOGS}/sink.out", f"{_LOGS}/sink.err"

# Takes what the first connection sends that sends anything. Prints its port, and at the end how many bytes came, and
# in how many seconds: what lies in buffers when the sender ends still comes, and took as long as the cable needs.
# Perl's base is part of every Debian system, and has no finer clock; nothing of ours has been sent there yet.
_SINK = r"""
use IO::Socket::IP;
alarm 30;
$| = 1;
my $port = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 0, Listen => 16) or die "$@\n";
print $port->sockport, "\n";
sub now { open my $clock, "<", "/proc/uptime" or die "$!\n"; return (split " ", <$clock>)[0] }
my ($bytes, $data, $began) = (0, "");
until ($bytes) {
  my $from = $port->accept or die "$!\n";
  while (my $read = sysread($from, $data, 1 << 20)) { $began //= now; $bytes += $read }
}
print "$bytes ", now() - $began, "\n";
"""


def pair_findings(cluster: ClusterSpec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Every pair that a run needs, of the hosts that are open."""
    wanted = [
        *itertools.product(cluster.load_clients, cluster.engine_nodes),
        *itertools.permutations(cluster.engine_nodes, 2),
    ]
    for here, there in dict.fromkeys(wanted):
        if here != there and here in hosts and there in hosts:
            yield _pair(cluster, hosts, here, there)


def _pair(cluster: ClusterSpec, hosts: Mapping[str, Host], here: str, there: str) -> Finding:
    """By a port such as an engine has, unless another run measures there: a data network may be closed for sshd's."""
    host, spec = hosts[here], cluster.hosts[there]
    address = data_address(spec)
    place = f"{here} to {there}"
    with contextlib.ExitStack() as stack:
        sink: _Sink | None = None
        said = ""
        if (
            host.locked and hosts[there].locked
        ):  # half a second of traffic would disturb another run
            try:
                sink = stack.enter_context(_sink(hosts[there], address))
            except HostError as error:
                said = f"; how much it takes was not found out: {error.message}"
        port = spec.port if sink is None else sink.port
        arguments = [address, str(port), str(TRIES), str(TIMEOUT_S)]
        done = host.transport.run(["bash", "-c", scripts.CONNECT, "bash", *arguments], check=False)
        if done.exit:
            words = done.stderr.strip().splitlines()
            why = words[-1] if words else f"no answer in {TIMEOUT_S} s"
            remedy = (
                "check route and firewall (engines have ports of their own, beside sshd's);"
                " data_address in the cluster file says where clients go"
            )
            text = f"{address} is not reached at port {port}: {why}"
            return Finding(place, "network", "problem", text, remedy)
        idle = host.transport.run(
            ["bash", "-c", scripts.CONNECT_NOWHERE, "bash", *arguments]
        ).stdout.split()
        # The least of each: what else the hosts do makes a try longer, never shorter.
        took = max(0, min(map(int, done.stdout.split())) - min(map(int, idle))) / 1000.0
        remedies = ["hosts of one network; a batch waits that long for each answer"]
        remedies = remedies if took > SLOW_MS else []
        text = f"{address} answers in {took:.1f} ms"
        if sink is not None:
            try:
                rate = sink.rate_mb_s(host)
                text += f" and takes {rate:.0f} MB/s"
                if rate < NARROW_MB_S:
                    remedies.append(
                        "a faster network, or smaller values: the load may measure the cable"
                    )
            except HostError as error:
                said = f"; how much it takes was not found out: {error.message}"
        if said:
            remedies.append(
                "its perl takes the bytes, at the data address: is that one of its own?"
            )
    return Finding(
        place, "network", "warning" if remedies else "ok", text + said, "; ".join(remedies)
    )


@dataclass(frozen=True)
class _Sink:
    """Listens on `host`, and counts what comes."""

    host: Host
    process: Process
    address: str
    port: int

    def rate_mb_s(self, source: Host) -> float:
        """Through one connection for SENDING_S; once. HostError when it cannot be measured."""
        arguments = [self.address, str(self.port), str(SENDING_S)]
        source.transport.run(["bash", "-c", scripts.SEND_ZEROS, "bash", *arguments])
        self.process.wait(ENDS_S)
        _, came, took = self.host.transport.read_text(_OUT).split()
        return float(came) / max(float(took), SENDING_S / 2) / 1e6


@contextlib.contextmanager
def _sink(host: Host, address: str) -> Iterator[_Sink]:
    """Leaves nothing on the host. HostError where nothing can listen at `address`."""
    host.transport.remove_tree(_LOGS)
    with contextlib.ExitStack() as stack:
        stack.callback(host.transport.remove_tree, _LOGS)
        process = host.start(
            ["perl", "-e", _SINK, address],
            name="doctor-sink",
            log_stdout=_OUT,
            log_stderr=_ERR,
        )
        stack.callback(process.stop, 1.0)
        until = time.monotonic() + LISTENS_S
        while not (said := host.transport.read_text(_OUT).split()):
            if process.poll() is not None or time.monotonic() > until:
                why = host.transport.read_text(_ERR).strip()
                raise HostError(f"nothing listens on {address}: {why or 'no port in time'}")
            time.sleep(0.02)
        yield _Sink(host, process, address, int(said[0]))
