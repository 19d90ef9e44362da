"""Load the shell programs that run on a host (POSIX sh, some bash): `scripts.PUT_FILE` is programs/put-file.sh.

Each program is run by `sh -c`, with its parameters as arguments and never pasted into the text. Comments are removed
before it is sent. A line `# after: FILE` prepends another file. scripts/lint checks the programs with shellcheck.

Exit statuses defined by the programs: 70 did not start, 73 a log cannot be opened, 74 files cannot be written or
arrived damaged, 75 in use, 76 refused, 77 the machine is in use.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

NOT_UP, NO_LOG, BAD_FILE, IN_USE, REFUSED, MACHINE_IN_USE = 70, 73, 74, 75, 76, 77
# Bytes that get-file.sh sends before the file's own: sha256 and size.
GET_FILE_HEADER = 64 + 1 + 14 + 1
_AFTER = "# after: "


def __getattr__(name: str) -> str:
    if not name.isupper() or name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _program(f"{name.lower().replace('_', '-')}.sh")


@cache
def _program(name: str) -> str:
    path = files("perfrunner.hosts") / "programs" / name
    if not path.is_file():
        raise AttributeError(f"there is no program {name}")
    lines = path.read_text(encoding="utf-8").splitlines()
    first = [_program(line.removeprefix(_AFTER)) for line in lines if line.startswith(_AFTER)]
    own = [line for line in lines if line and not line.lstrip().startswith("#")]
    return "".join([*first, *(f"{line}\n" for line in own)])
