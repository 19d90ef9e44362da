"""`perfrunner init`: the reference specs and a first one of one's own, in a directory."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import click

from perfrunner.bundled import bundled
from perfrunner.cli.options import json_option
from perfrunner.cli.output import note, print_json
from perfrunner.errors import StoreError, UsageError

FIRST = "first.yaml"
# The lab's hosts are raised by a script of the checkout.
LEFT_OUT = ("clusters/lab.yaml",)


@click.command(
    "init",
    short_help="Write the reference specs and a first one of your own.",
    epilog="\b\nExamples:\n  perfrunner init specs"
    "\n  perfrunner init specs                      again: what is missing; nothing is overwritten"
    "\n  perfrunner run specs/first.yaml",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(directory: Path, as_json: bool) -> None:
    """Write a commented first spec and the reference specs into DIR, which is created. Files that are there stay.

    DIR then has first.yaml; experiments/, one spec for each reference experiment; and the pieces that these use:
    workloads/, clusters/, references/.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is no directory")
    source = bundled("specs")
    written: list[str] = []
    same: list[str] = []
    kept: list[str] = []
    for path in _files(source):
        name, data = path.relative_to(source).as_posix(), path.read_bytes()
        if _write_new(directory / name, data):
            written.append(name)
        else:
            (same if _holds(directory / name, data) else kept).append(name)
    commands = [
        shlex.join(["perfrunner", verb, str(directory / FIRST)]) for verb in ("doctor", "run")
    ]
    if as_json:
        document = {
            "directory": str(directory),
            "written": written,
            "unchanged": same,
            "kept": kept,
        }
        print_json({**document, "next": commands})
        return
    for name in written:
        click.echo(f"wrote {directory / name}")
    if same:
        note(
            f"there already, the same: {len(same)} of {len(written) + len(same) + len(kept)} files"
        )
    for name in kept:
        note(f"kept {directory / name}: it is there already, and another")
    note("")
    note(f"next: {commands[0]}    what this machine lacks for it")
    note(f"      {commands[1]}")


def _files(source: Path) -> list[Path]:
    """What is copied, the first spec first."""
    if not (source / FIRST).is_file():
        raise UsageError(
            f"the reference specs are missing in this installation ({source})",
            "install perfrunner again: pip install --force-reinstall --no-deps",
        )
    files = [p for p in source.rglob("*.yaml") if p.relative_to(source).as_posix() not in LEFT_OUT]
    return sorted(files, key=lambda p: (p.parent != source, p.relative_to(source).as_posix()))


def _write_new(path: Path, data: bytes) -> bool:
    """False when something of that name is there, whatever it is. A file cut short by a full disk does not stay."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            try:
                file.write(data)
                file.flush()
            except OSError:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
    except FileExistsError:
        if path.parent.is_dir():
            return False
        raise UsageError(f"{path.parent} is no directory") from None
    except OSError as error:
        raise StoreError(f"{error.filename or path} cannot be written: {error.strerror}") from error
    return True


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
