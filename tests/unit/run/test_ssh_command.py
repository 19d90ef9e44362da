"""The ssh line of a trial's reproduce.sh: it goes where the run went, by the same rules."""

from __future__ import annotations

from perfrunner.run.preflight.hosts import ssh_command
from perfrunner.spec.cluster import HostSpec


def test_it_believes_the_host_keys_that_the_run_believed() -> None:
    host = HostSpec(address="kv1", user="ann", key="/k", known_hosts="/lab/known hosts")
    line = "ssh -p 22 -i /k -o 'UserKnownHostsFile=\"/lab/known hosts\"' ann@kv1"
    assert ssh_command(host) == line
    host = HostSpec(address="kv1", host_keys="accept-new")
    assert ssh_command(host) == "ssh -p 22 -o StrictHostKeyChecking=accept-new kv1"
