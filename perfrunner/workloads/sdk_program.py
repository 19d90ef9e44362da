"""The package sdk_client as a program for the load clients."""

from __future__ import annotations

from functools import cache

from perfrunner.archive import python_archive
from perfrunner.workloads.bench import ClientProgram

MODULES = ("copies", "documents", "errors", "load", "process", "traffic", "verify")
_MAIN = """\
import sys
from perfrunner.workloads.sdk_client.process import main
sys.exit(main())
"""


@cache
def sdk_program() -> ClientProgram:
    modules = [f"workloads/sdk_client/{name}.py" for name in MODULES]
    return ClientProgram("sdk", python_archive(_MAIN, modules))
