"""Define the cluster `local` and the default spec of `perfrunner ab` as plain values, read also without pydantic."""

from __future__ import annotations

from typing import Any

LOCAL = "local"
LOCAL_CLUSTER = {
    "name": LOCAL,
    "transport": "local",
    "hosts": {"here": {}},
    "engine_nodes": ["here"],
    "load_clients": ["here"],
}


_MIXED: dict[str, Any] = {
    "type": "pillowfight",
    "items": 100_000,
    "set_share": 20,
    "value_size": 256,
    "batch": 100,
    "threads": 1,
    "connections": 1,
    "key_semantics": "random",
    "ramp": 0.3,
    "duration": 1.4,
    "settle": 0.0,
}
# The workloads for servers that are not the engine; `ab` runs the first unless others are named.
SERVER_WORKLOADS: dict[str, dict[str, Any]] = {
    "mixed": _MIXED,
    "read": {**_MIXED, "set_share": 0},
    "write": {**_MIXED, "set_share": 100},
    "unbatched": {**_MIXED, "batch": 1},
}
SERVER_BLOCKS = 10

# The workloads of the quickstart, reduced to a minute and a half on this machine.
SMALL: dict[str, Any] = {
    "name": "ab",
    "cluster": LOCAL_CLUSTER,
    "variants": {"engine": {"name": "engine", "allocator": {"name": "system"}}},
    "baseline": "engine",
    "engine": {"threads": 2, "shards": 2, "quota_mb": 1024},
    "workloads": {
        "pillowfight": {**_MIXED, "items": 50_000, "set_share": 80},
        "append": {
            "type": "append",
            "items": 20_000,  # more than a second of updates where a CPU does half a million a second
            "slice_ops": 250,
            "in_flight": 100,
            "settle": 0.0,
        },
    },
    "blocks": 7,
    "sampling_check": False,
}
