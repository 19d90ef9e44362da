"""Several SSH hosts on one Linux machine: real sshds, addresses and links, for tests and for trying clusters.

with raised_lab(3, directory) as lab:
    lab.cluster(engine_nodes=["lab1", "lab2"], load_clients=["lab3"])   # a ClusterSpec
    lab.cut("lab1"); lab.heal("lab1"); lab.power_off("lab2"); lab.boot("lab2")

Each host has two cables: one for SSH (control), one for engines and their clients (data). It has a network, PID, mount,
host-name and IPC namespace, an sshd as its first process, its own boot id, and its own directory at the same path as
the others'. The only trace in the machine's own network is the cable that leads to the lab. One process, the keeper,
holds everything: when it dies, for any reason, the kernel ends the hosts and removes the cable.
"""

from tools.lab.client import Lab, LabError, raised_lab, why_not

__all__ = ["Lab", "LabError", "raised_lab", "why_not"]
