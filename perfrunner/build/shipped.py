"""The builder as one file that Python can run: what is sent to a build host."""

from __future__ import annotations

from functools import cache

from perfrunner.archive import python_archive

# Of perfrunner.build, all that a build takes; none of these needs more than Python's standard library.
MODULES = (
    "artifact", "builder", "bundle", "cache", "identity", "inputs", "layout", "links", "manifest", "output",
    "provenance", "request", "retention", "snapshot", "toolchain", "tree", "worker",
)  # fmt: skip
PYTHON_AT_LEAST = (3, 10)
_MAIN = """\
import json, sys
if sys.version_info < {least}:
    print(json.dumps({{"error": "python3 is %d.%d, and the builder needs {text}" % sys.version_info[:2]}}))
    sys.exit(3)
from perfrunner.build.worker import main
sys.exit(main(sys.argv[1:]))
"""


@cache
def builder_archive() -> bytes:
    """A zip file with a __main__.py: the same bytes from the same perfrunner."""
    least = ".".join(map(str, PYTHON_AT_LEAST))
    main = _MAIN.format(least=PYTHON_AT_LEAST, text=least)
    return python_archive(main, ["errors.py", *(f"build/{name}.py" for name in MODULES)])
