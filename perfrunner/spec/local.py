"""`cluster: local`: this machine, without a file."""

from __future__ import annotations

LOCAL = "local"
LOCAL_CLUSTER = {
    "name": LOCAL,
    "transport": "local",
    "hosts": {"here": {}},
    "engine_nodes": ["here"],
    "load_clients": ["here"],
}
