"""`perfrunner validate`: check specs without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perfrunner.cli.options import cluster_option, json_option, set_option
from perfrunner.cli.output import print_json
from perfrunner.cli.request import find_engine_source
from perfrunner.errors import EXIT_USAGE, SpecError
from perfrunner.spec.assemble import profile_names
from perfrunner.spec.includes import shown
from perfrunner.text import product_of


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
def command(
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
    from perfrunner.spec import load_spec

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
