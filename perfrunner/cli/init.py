"""`perfrunner init` and `validate`: write a first spec and the reference specs; check specs without running them."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Any

import click

from perfrunner.cli.options import cluster_option, json_option, set_option
from perfrunner.cli.output import note, print_json
from perfrunner.cli.request import find_engine_source
from perfrunner.errors import EXIT_USAGE, SpecError, StoreError, UsageError
from perfrunner.paths import bundled
from perfrunner.spec.assemble import profile_names
from perfrunner.spec.includes import shown
from perfrunner.text import product_of

FIRST = "first.yaml"
# The hosts of the lab are created by a script of the checkout.
LEFT_OUT = ("clusters/lab.yaml",)


@click.command(
    "init",
    epilog="\b\nExamples:\n  perfrunner init specs                      create specs/, or add missing files to it"
    "\n  perfrunner run specs/first.yaml",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(directory: Path, as_json: bool) -> None:
    """Write a commented first spec and the reference specs to DIR. Existing files are not overwritten.

    DIR then contains first.yaml; experiments/ with one spec for each reference experiment; and the parts that these
    use: workloads/, clusters/ and published/.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", "name a new or existing directory")
    source = bundled("specs")
    written: list[str] = []
    same: list[str] = []
    different: list[str] = []
    for path in _files(source):
        name, data = path.relative_to(source).as_posix(), path.read_bytes()
        if _write_new(directory / name, data):
            written.append(name)
        else:
            (same if _holds(directory / name, data) else different).append(name)
    commands = [
        shlex.join(["perfrunner", verb, str(directory / FIRST)]) for verb in ("doctor", "run")
    ]
    if as_json:
        document = {
            "directory": str(directory),
            "written": written,
            "unchanged": same,
            "kept": different,
        }
        print_json({**document, "next": commands})
        return
    for name in written:
        click.echo(f"wrote {directory / name}")
    if same:
        note(f"unchanged: {len(same)} of {len(written) + len(same) + len(different)} files")
    for name in different:
        note(f"kept {directory / name}: it exists with different content")
    note("")
    note(f"next: {commands[0]}    check this machine")
    note(f"      {commands[1]}       measure and report")


def _files(source: Path) -> list[Path]:
    """Return the files to copy, the first spec first."""
    if not (source / FIRST).is_file():
        raise UsageError(
            f"this installation lacks the reference specs: {source} has no {FIRST}",
            "install perfrunner again: pip install --force-reinstall --no-deps",
        )
    files = [p for p in source.rglob("*.yaml") if p.relative_to(source).as_posix() not in LEFT_OUT]
    return sorted(files, key=lambda p: (p.parent != source, p.relative_to(source).as_posix()))


def _write_new(path: Path, data: bytes) -> bool:
    """Write a new file; return False if the path exists. Leaves no partial file on an error."""
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
        raise UsageError(f"{path.parent} is not a directory") from None
    except OSError as error:
        raise StoreError(f"{error.filename or path} cannot be written: {error.strerror}") from error
    return True


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


@click.command(
    "validate",
    epilog="\b\nExamples:\n  perfrunner validate specs/experiments/*.yaml"
    "\n  perfrunner validate spec.yaml --cluster hosts.yaml"
    "\n\nExit code: 0 if every spec is valid, else 2.",
)
@click.argument(
    "spec_paths", metavar="SPEC...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@set_option
@cluster_option
@json_option
@click.pass_context
def validate(
    ctx: click.Context,
    spec_paths: tuple[Path, ...],
    overrides: tuple[str, ...],
    cluster: Path | None,
    as_json: bool,
) -> None:
    """Check specs, with each of their profiles, and print every error with its file and line."""
    results = [_check(path, overrides, cluster) for path in spec_paths]
    if as_json:
        print_json({"specs": results, "ok": all(r["ok"] for r in results)})
    else:
        for result in results:
            if result["ok"]:
                click.echo(f"{result['spec']}: ok ({result['summary']})")
            for line in result["errors"]:
                click.echo(f"error: {line}", err=True)
    if not all(r["ok"] for r in results):
        ctx.exit(EXIT_USAGE)


def _check(path: Path, overrides: tuple[str, ...], cluster: Path | None) -> dict[str, Any]:
    from perfrunner.sources.switches import SwitchTables
    from perfrunner.spec.loader import load_spec

    switches = SwitchTables(
        find_engine_source(None, path),
        revisions_of=lambda: find_engine_source(None, path, revisions=True),
    )
    try:
        spec = load_spec(path, overrides, cluster, switches=switches)
        for profile in profile_names(path):
            load_spec(path, overrides, cluster, profile, switches)
    except SpecError as error:
        return {"spec": shown(path), "ok": False, "errors": list(error.problems)}
    summary = product_of(len(spec.variants), len(spec.cases), spec.blocks)
    return {"spec": shown(path), "ok": True, "errors": [], "summary": summary}
