"""The spec of `perfrunner ab` where none is named, as plain values: completion reads its names."""

from __future__ import annotations

from typing import Any

from perfrunner.spec.local import LOCAL_CLUSTER

# The quickstart's workloads, smaller, on this machine: a minute and a half.
SMALL: dict[str, Any] = {
    "name": "ab",
    "cluster": LOCAL_CLUSTER,
    "variants": {"engine": {"name": "engine", "allocator": {"name": "system"}}},
    "baseline": "engine",
    "engine": {"threads": 2, "shards": 2, "quota_mb": 1024},
    "workloads": {
        "pillowfight": {
            "type": "pillowfight",
            "items": 50_000,
            "set_share": 80,
            "value_size": 256,
            "batch": 100,
            "threads": 1,
            "connections": 1,
            "key_semantics": "random",
            "ramp": 0.3,
            "duration": 1.4,
            "settle": 0.0,
        },
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
