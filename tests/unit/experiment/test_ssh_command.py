"""The ssh line of a trial's reproduce.sh: it goes where the run went, by the same rules."""

from __future__ import annotations

from perfrunner.experiment.preflight.hosts import ssh_command
from perfrunner.spec.cluster import HostSpec


def test_it_is_the_command_whose_route_the_run_took() -> None:
    assert ssh_command(HostSpec(address="kv1")) == "ssh -- kv1"
    host = HostSpec(address="kv1", port=22, user="CORP\\ann", known_hosts="/lab/known hosts")
    line = "ssh -p 22 -l 'CORP\\ann' -o 'UserKnownHostsFile=\"/lab/known hosts\"' -- kv1"
    assert ssh_command(host) == line
    host = HostSpec(address="::1", ssh_config="/c", key="/k", host_keys="accept-new")
    line = "ssh -F /c -i /k -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -- ::1"
    assert ssh_command(host) == line
