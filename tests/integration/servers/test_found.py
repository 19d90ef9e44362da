"""Differences of known size between servers: none in an A/A comparison, and one that was injected."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.analysis.compare import compare
from tests.integration.servers.conftest import ServerLab, library, memcached

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

# Burns time in each call that sends an answer.
BURNS = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*real)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    for (volatile int i = 0; i < 300000; ++i) {}
    return real(fd, message, flags);
}
"""


def verdict(servers: ServerLab, variant: str) -> str:
    (row,) = (
        row
        for row in compare(servers.data()).rows
        if row.metric.id == "ops_per_s" and row.variant == variant
    )
    return str(row.verdict)


def test_the_same_server_twice_is_the_same(servers: ServerLab):
    servers.write(
        {"one": memcached(), "again": memcached()},
        {"duration": 1.0}, blocks=8, margins={"ops_per_s": "30%"},
    )  # fmt: skip
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert verdict(servers, "again") == "same"


def test_a_preload_that_burns_time_is_found(servers: ServerLab, tmp_path: Path):
    burns = library(tmp_path / "libburns.so", BURNS)
    slow = {**memcached(), "allocator": {"preload": burns}}
    servers.write({"one": memcached(), "slow": slow}, {"duration": 1.0}, blocks=8)
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert verdict(servers, "slow") == "worse"
