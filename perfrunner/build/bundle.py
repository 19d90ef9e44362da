"""The shared libraries that travel with an artifact.

All but glibc's own: those belong to the host's kernel and loader, and every Debian 12 has them. The programs look in
$ORIGIN/../lib first (CMake's install rpath), also on behalf of the libraries themselves.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from perfrunner.errors import BuildError

_GLIBC = re.compile(
    r"ld-linux.*|linux-vdso.*|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|mvec|BrokenLocale|thread_db|nss_\w+)\.so.*"
)
_LINE = re.compile(r"^\s*(?P<name>\S+)(?: => (?P<path>not found|\S+))?(?: \(0x[0-9a-f]+\))?$")


def bundle_libraries(prefix: Path, env: Mapping[str, str]) -> list[str]:
    """Copy what the programs of `prefix`/bin need into `prefix`/lib, and check that they find it there."""
    library_dir = prefix / "lib"
    programs = [path for path in sorted((prefix / "bin").iterdir()) if _is_elf(path)]
    bundled: set[str] = set()
    for program in programs:
        for name, path in needed(program, env).items():
            if name in bundled:
                continue
            if path is None:
                raise BuildError(f"{program.name} needs {name}, which is not on this machine")
            library_dir.mkdir(exist_ok=True)
            if path.parent.resolve() != library_dir.resolve():
                shutil.copyfile(path, library_dir / name)
            bundled.add(name)
    for program in programs:
        for name, path in needed(program, env).items():
            if path is None or path.parent.resolve() != library_dir.resolve():
                raise BuildError(
                    f"{program.name} would not run on another host: it takes {name} from {path}",
                    hint="its install rpath must be $ORIGIN/../lib (engine_src/CMakeLists.txt)",
                )
    return sorted(bundled)


def needed(program: Path, env: Mapping[str, str]) -> dict[str, Path | None]:
    """The program's libraries, glibc's aside, and where the loader finds each (None: nowhere)."""
    done = subprocess.run(
        ["ldd", str(program)],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if (
        "not a dynamic executable" in done.stdout + done.stderr
        or "statically linked" in done.stdout
    ):
        return {}
    if done.returncode != 0:
        raise BuildError(f"ldd {program} failed: {done.stderr.strip()}")
    return parse_ldd(done.stdout)


def parse_ldd(text: str) -> dict[str, Path | None]:
    """What `ldd` prints."""
    libraries: dict[str, Path | None] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name = found["name"].rpartition("/")[2]
        if _GLIBC.fullmatch(name):
            continue
        path = found["path"] or found["name"]
        libraries[name] = None if path == "not found" else Path(path)
    return libraries


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
