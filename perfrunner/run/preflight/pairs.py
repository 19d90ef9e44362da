"""Whether the hosts of a cluster reach each other, how long a packet takes and how many fit, there and back: clients to
nodes, nodes to nodes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
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
COUNTING_S = 3.0  # at most: what a narrow cable still has in its buffers then is left there
LISTENS_S, ENDS_S = 5.0, 10.0
_LOGS = "doctor"
_OUT, _ERR = f"{_LOGS}/peer.out", f"{_LOGS}/peer.err"

# Perl's base is part of every Debian system, and nothing of ours has been sent there yet; it has no finer clock. Times
# are taken where bytes arrive: what lies in buffers when the sender ends still comes, and took as long as the cable
# needs. One process that is there before the first byte, since on a busy host a shell's take as long as the sender has.
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
# Prints its port, takes what the first connection sends that sends anything, then sends to the next one for so many
# seconds.
_PEER = f"""{_COUNT}
my $port = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 0, Listen => 16) or die "$@\\n";
print $port->sockport, "\\n";
1 until count($port->accept or die "$!\\n");
my $to = $port->accept or die "$!\\n";
my ($zeros, $until) = ("\\0" x (1 << 20), now() + $ARGV[1]);
while (now() < $until) {{ defined syswrite($to, $zeros) or last }}
"""
_TAKE = f"""{_COUNT}
count(IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1]) or die "$@\\n") or die "nothing came\\n";
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
        peer: _Peer | None = None
        said = ""
        if host.locked and hosts[there].locked:  # traffic would disturb another run
            try:
                peer = stack.enter_context(_peer(hosts[there], address))
            except HostError as error:
                said = f"; how much it takes was not found out: {error.message}"
        port = spec.port if peer is None else peer.port
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
        if peer is not None:
            try:
                takes, gives = peer.takes_mb_s(host), peer.gives_mb_s(host)
                text += f", takes {_shown(takes)} MB/s and gives {_shown(gives)} MB/s"
                if min(takes, gives) < NARROW_MB_S:
                    remedies.append(
                        "a faster network, or smaller values: the load may measure the cable"
                    )
            except HostError as error:
                said = f"; how much it takes was not found out: {error.message}"
        if said:
            remedies.append(
                "its perl takes and sends the bytes, at the data address: is that one of its own?"
            )
    return Finding(
        place, "network", "warning" if remedies else "ok", text + said, "; ".join(remedies)
    )


def _shown(rate: float) -> str:
    """A cable of 1 Mbit/s takes 0.12 MB/s, not 0."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


@dataclass(frozen=True)
class _Peer:
    """Listens on `host`: counts what comes, then sends."""

    host: Host
    process: Process
    address: str
    port: int

    def takes_mb_s(self, client: Host) -> float:
        """Of what a client sends through one connection for SENDING_S; once. HostError when it cannot be measured."""
        arguments = [self.address, str(self.port), str(SENDING_S)]
        client.transport.run(["bash", "-c", scripts.SEND_ZEROS, "bash", *arguments])
        return _mb_s(_said(self.host, self.process, 3, ENDS_S)[1:])

    def gives_mb_s(self, client: Host) -> float:
        """The other way, after `takes_mb_s`: through a connection that the client opens, as a GET's answer comes."""
        done = client.transport.run(["perl", "-e", _TAKE, self.address, str(self.port)])
        return _mb_s(done.stdout.split())


@contextlib.contextmanager
def _peer(host: Host, address: str) -> Iterator[_Peer]:
    """Leaves nothing on the host. HostError where nothing can listen at `address`."""
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
            (port,) = _said(host, process, 1, LISTENS_S)
        except HostError as error:
            raise HostError(f"nothing listens on {address}: {error.message}") from None
        yield _Peer(host, process, address, int(port))


def _said(host: Host, process: Process, words: int, patience_s: float) -> list[str]:
    """All that it has printed, once it is so many words. HostError when it ends or takes too long before."""
    until = time.monotonic() + patience_s
    while len(said := host.transport.read_text(_OUT).split()) < words:
        if process.poll() is not None or time.monotonic() > until:
            why = host.transport.read_text(_ERR).strip()
            raise HostError(why or f"no figure in {patience_s:.0f} s")
        time.sleep(0.02)
    return said


def _mb_s(counted: Sequence[str]) -> float:
    """Of bytes and seconds; a clock of 10 ms makes nothing of what came at once."""
    came, seconds = map(float, counted)
    return came / max(seconds, SENDING_S / 2) / 1e6
