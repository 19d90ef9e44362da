"""Whether the hosts of a cluster reach each other, and how long a packet takes: clients to nodes, nodes to nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from statistics import median

from perfrunner.cluster import Host
from perfrunner.run.preflight.health import Finding
from perfrunner.spec.cluster import ClusterSpec

TRIES = 5
TIMEOUT_S = 3
SLOW_MS = 5.0  # between hosts that are to be measured together

# $0 address, $1 port, $2 tries, $3 seconds. A refusal is an answer: the host was reached. Prints µs, a line each.
_CONNECT = r"""
for n in $(seq "$2"); do
  begun=${EPOCHREALTIME/[.,]/}
  said=$(timeout "$3" bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$0" "$1" 2>&1) ||
    case $said in *refused*) ;; *) echo "${said##*: }" >&2; exit 1 ;; esac
  echo $((${EPOCHREALTIME/[.,]/} - begun))
done
"""
# What starting bash costs: the same without a connection.
_NOTHING = r"""
for n in $(seq "$2"); do
  begun=${EPOCHREALTIME/[.,]/}
  said=$(timeout "$3" bash -c : "$0" "$1" 2>&1)
  echo $((${EPOCHREALTIME/[.,]/} - begun))
done
"""


def pair_findings(cluster: ClusterSpec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Every pair that a run needs, of the hosts that are open."""
    wanted = [
        *itertools.product(cluster.load_clients, cluster.engine_nodes),
        *itertools.permutations(cluster.engine_nodes, 2),
    ]
    for here, there in dict.fromkeys(wanted):
        if here != there and here in hosts and there in hosts:
            yield _pair(cluster, hosts[here], here, there)


def _pair(cluster: ClusterSpec, host: Host, here: str, there: str) -> Finding:
    spec = cluster.hosts[there]
    address = spec.data_address or spec.address
    arguments = [address, str(spec.port), str(TRIES), str(TIMEOUT_S)]
    place = f"{here} to {there}"
    done = host.transport.run(["bash", "-c", _CONNECT, *arguments], check=False)
    if done.exit:
        said = done.stderr.strip().splitlines()
        text = f"{address} is not reached: {said[-1] if said else f'no answer in {TIMEOUT_S} s'}"
        remedy = "check route and firewall; data_address in the cluster file says where clients go"
        return Finding(place, "network", "problem", text, remedy)
    idle = host.transport.run(["bash", "-c", _NOTHING, *arguments]).stdout.split()
    took = max(0.0, median(map(int, done.stdout.split())) - median(map(int, idle))) / 1000.0
    text = f"{address} answers in {took:.1f} ms"
    if took > SLOW_MS:
        remedy = "hosts of one network; a batch waits that long for each answer"
        return Finding(place, "network", "warning", text, remedy)
    return Finding(place, "network", "ok", text)
