"""The builder as one file that Python can run: what is sent to a build host."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.resources import files

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
    package = files("perfrunner")
    content = {
        "__main__.py": _MAIN.format(least=PYTHON_AT_LEAST, text=least),
        "perfrunner/__init__.py": "",
        "perfrunner/build/__init__.py": "",  # the real one brings what only the controller has
        "perfrunner/errors.py": (package / "errors.py").read_text(encoding="utf-8"),
    }
    for name in MODULES:
        source = package / "build" / f"{name}.py"
        content[f"perfrunner/build/{name}.py"] = source.read_text(encoding="utf-8")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)  # of 1980-01-01
    return out.getvalue()
