"""Whether the hosts of a cluster reach each other, how long a packet takes and how many fit: clients to nodes, nodes
to nodes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping

from perfrunner.cluster import Host, data_address, scripts
from perfrunner.errors import HostError
from perfrunner.run.preflight.health import Finding
from perfrunner.spec.cluster import ClusterSpec

TRIES = 5
TIMEOUT_S = 3
SLOW_MS = 5.0  # between hosts that are to be measured together
NARROW_MB_S = 100.0  # about a gigabit; 400 000 operations of 256 B a second fill it
SENDING_S = 0.5
LISTENS_S, ENDS_S = 5.0, 10.0

# Takes what one connection sends. Prints its port, and at the end how many bytes came. Perl's base is part of every
# Debian system; nothing of ours has been sent there yet.
_SINK = r"""
use IO::Socket::IP;
alarm 30;
$| = 1;
my $port = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 0, Listen => 1) or die "$@\n";
print $port->sockport, "\n";
my $from = $port->accept or die "$!\n";
my ($bytes, $data) = (0, "");
while (my $read = sysread($from, $data, 1 << 20)) { $bytes += $read }
print "$bytes\n";
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
    host, spec = hosts[here], cluster.hosts[there]
    address = data_address(spec)
    arguments = [address, str(spec.port), str(TRIES), str(TIMEOUT_S)]
    place = f"{here} to {there}"
    done = host.transport.run(["bash", "-c", scripts.CONNECT, "bash", *arguments], check=False)
    if done.exit:
        said = done.stderr.strip().splitlines()
        text = f"{address} is not reached: {said[-1] if said else f'no answer in {TIMEOUT_S} s'}"
        remedy = "check route and firewall; data_address in the cluster file says where clients go"
        return Finding(place, "network", "problem", text, remedy)
    idle = host.transport.run(
        ["bash", "-c", scripts.CONNECT_NOWHERE, "bash", *arguments]
    ).stdout.split()
    # The least of each: what else the hosts do makes a try longer, never shorter.
    took = max(0, min(map(int, done.stdout.split())) - min(map(int, idle))) / 1000.0
    text = f"{address} answers in {took:.1f} ms"
    remedies = []
    if took > SLOW_MS:
        remedies.append("hosts of one network; a batch waits that long for each answer")
    if host.locked and hosts[there].locked:  # half a second of traffic would disturb another run
        try:
            rate = _rate_mb_s(host, hosts[there], address)
            text += f" and takes {rate:.0f} MB/s"
            if rate < NARROW_MB_S:
                remedies.append(
                    "a faster network, or smaller values: the load may measure the cable"
                )
        except HostError as error:
            text += f"; how much it takes was not found out: {error.message}"
            remedies.append(
                "engines have ports of their own: a firewall may let through sshd's alone"
            )
    return Finding(place, "network", "warning" if remedies else "ok", text, "; ".join(remedies))


def _rate_mb_s(source: Host, sink: Host, address: str) -> float:
    """Through one connection for SENDING_S. Leaves nothing on the hosts. HostError when it cannot be measured."""
    logs = "doctor"
    out = f"{logs}/sink.out"
    sink.transport.remove_tree(logs)
    with contextlib.ExitStack() as stack:
        stack.callback(sink.transport.remove_tree, logs)
        process = sink.start(
            ["perl", "-e", _SINK, address],
            name="doctor-sink",
            log_stdout=out,
            log_stderr=f"{logs}/sink.err",
        )
        stack.callback(process.stop, 1.0)
        until = time.monotonic() + LISTENS_S
        while not (said := sink.transport.read_text(out).split()):
            if process.poll() is not None or time.monotonic() > until:
                why = sink.transport.read_text(f"{logs}/sink.err").strip()
                raise HostError(f"nothing listens on {address}: {why or 'no port in time'}")
            time.sleep(0.02)
        arguments = [address, said[0], str(SENDING_S)]
        source.transport.run(["bash", "-c", scripts.SEND_ZEROS, "bash", *arguments])
        process.wait(ENDS_S)
        return float(sink.transport.read_text(out).split()[1]) / SENDING_S / 1e6
