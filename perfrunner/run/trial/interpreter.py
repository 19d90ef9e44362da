"""Which Python runs the load programs that are Python, on each load client."""

from __future__ import annotations

import sys

from perfrunner.spec.model import Spec

USUAL = "python3"


def client_python(spec: Spec, host: str) -> str:
    """The spec's, else the one that runs perfrunner where the host is this machine, else the host's own."""
    if spec.client.python is not None:
        return spec.client.python
    return sys.executable if spec.cluster.is_here(host) else USUAL
