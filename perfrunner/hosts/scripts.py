"""Load the shell programs that run on a host (POSIX sh, some bash): `scripts.PUT_FILE` is programs/put-file.sh.

Each program is run by `sh -c`, with its parameters as arguments and never pasted into the text. Comments are removed
before it is sent. A line `# after: FILE` prepends another file. scripts/lint checks the programs with shellcheck.

Exit statuses defined by the programs: 70 did not start, 73 a log cannot be opened, 74 files cannot be written or
arrived damaged, 75 in use, 76 refused, 77 the machine is in use, 78 programs are missing.

Over SSH, sshd gives a command line to the login shell: a Bourne shell, csh, tcsh, fish. The line that is sent means
the same to all of them: `exec /usr/bin/env -i … /bin/sh -c '…' sh WORDS`, without a newline, backslash, quote or
exclamation mark inside the quotes. WORDS are the real program in base64, in pieces that csh accepts. So the program
runs in a POSIX shell with a known environment, umask and locale. Text of start files is cut off at a mark that the
program prints.
"""

from __future__ import annotations

import base64
import secrets
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

from perfrunner.hosts.process import BASE_ENVIRONMENT

IN_USE, MACHINE_IN_USE, NO_PROGRAMS = 75, 77, 78  # of the exit statuses above
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


_KEPT = 1 << 16  # bytes of what start files wrote
_WORD = 1000  # bytes; csh refuses words of 2048 and more
# csh leaves copies of its standard streams open; a program that is started would keep the channel open with them.
_CLOSE = f"exec {' '.join(f'{number}<&-' for number in range(3, 10))}"
_DECODE = """'eval "$(printf %s "$@" | base64 -d)"'"""


def login_command(program: str) -> str:
    """Return the line for the login shell that runs `program`, the text of a POSIX shell program."""
    encoded = base64.b64encode(program.encode("utf-8", "surrogateescape")).decode()
    words = [encoded[at : at + _WORD] for at in range(0, len(encoded), _WORD)]
    fixed = " ".join(f"{name}={value}" for name, value in BASE_ENVIRONMENT.items())
    return f'exec /usr/bin/env -i "HOME=$HOME" {fixed} /bin/sh -c {_DECODE} sh {" ".join(words)}'


def marked_program(argv: Sequence[str], *, fed: bool) -> tuple[str, bytes]:
    """Return a shell program that runs a command, and the mark that it prints first on both outputs.

    Unless it is `fed` by standard input, the command ends when that closes.
    """
    mark = secrets.token_hex(16)
    body = _program("fed.sh" if fed else "tied.sh")
    program = f"{_CLOSE}\necho {mark}; echo {mark} >&2\nset -- {shlex.join(argv)}\n{body}"
    return program, f"{mark}\n".encode()


class AfterMark:
    """A sink for a stream that forwards what follows the mark and keeps what precedes it."""

    def __init__(self, mark: bytes, sink: Callable[[bytes], None]) -> None:
        self._mark = mark
        self._sink = sink
        self._before = bytearray()
        self.seen = False

    @property
    def before(self) -> bytes:
        """Return what start files wrote, as far as it is kept."""
        return bytes(self._before)

    def take(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        if self.seen:
            self._sink(chunk)
            return
        self._before += chunk
        at = self._before.find(self._mark)
        if at < 0:
            # Start files may print without end; the mark may begin in what is kept.
            del self._before[:-_KEPT]
            return
        self.seen = True
        rest = bytes(self._before[at + len(self._mark) :])
        del self._before[at:]
        if rest:
            self._sink(rest)
