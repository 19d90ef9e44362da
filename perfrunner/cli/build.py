"""`perfrunner build`: every variant built and proved, without measuring anything."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.output import duration, print_json, result_console
from perfrunner.cli.proofs import RememberedProofs
from perfrunner.errors import EXIT_FAILED

if TYPE_CHECKING:
    from perfrunner.build.place import Platform
    from perfrunner.run.events import Listener
    from perfrunner.run.preflight.builds import Builds
    from perfrunner.spec import Spec

Settings = dict[str, Mapping[str, str]]


@click.command(
    "build",
    short_help="Build and prove every variant.",
    epilog="\b\nExamples:\n  perfrunner build specs/experiments/quickstart.yaml"
    "\n  perfrunner build spec.yaml --variants glibc --json",
)
@options.spec_argument
@options.set_option
@options.profile_option
@options.source_option
@options.cluster_option
@options.variants_option
@options.cache_option
@options.engine_source_option
@click.option("--prove-again", is_flag=True, help="Do not rely on proofs that were made before.")
@options.json_option
@options.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    spec_path: Path,
    overrides: tuple[str, ...],
    profile: str | None,
    named_sources: tuple[str, ...],
    cluster: Path | None,
    variants: tuple[str, ...],
    cache_dir: Path,
    engine_src: Path | None,
    prove_again: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build every variant of SPEC, start each on its host, read its settings back, and print the build ids."""
    spec = options.read_spec(
        spec_path,
        overrides,
        cluster,
        named_sources=named_sources,
        profile=profile,
        engine_src=engine_src,
    )
    spec = spec.restricted(None, options.selection("variant", variants, tuple(spec.variants)))
    source = find_engine_source(engine_src, spec_path)
    from perfrunner.build.place import open_builder
    from perfrunner.cli.progress import progress_listener
    from perfrunner.run.preflight.builds import build_all
    from perfrunner.source import resolve_sources

    sources = resolve_sources(spec, source, cache_dir)
    run_id = f"build-{int(time.time())}-{os.getpid()}"
    with (
        progress_listener(quiet) as listener,
        open_builder(spec.cluster, cache_dir, run_id) as builder,
    ):
        if spec.cluster.transport == "ssh" or spec.cluster.build_host is not None:
            from perfrunner.run.preflight.hosts import refuse_unfit

            refuse_unfit(spec.cluster, run_id, builder.platform)
        builds = build_all(spec, sources, builder, listener)
        known = RememberedProofs(cache_dir, spec)
        settings = {} if prove_again else _remembered(known, builds)
        _prove(spec, builds, builder.platform, run_id, listener, known, settings)
    _print(spec, builds, settings, as_json)
    if builds.failures:
        ctx.exit(EXIT_FAILED)


def _remembered(known: RememberedProofs, builds: Builds) -> Settings:
    """What each variant's engine read back before, where it is known."""
    found = {name: known.find(name, built.build_id) for name, built in builds.artifacts.items()}
    return {name: settings for name, settings in found.items() if settings is not None}


def _prove(
    spec: Spec,
    builds: Builds,
    built_for: Platform,
    run_id: str,
    listener: Listener,
    known: RememberedProofs,
    settings: Settings,
) -> None:
    """The variants that `settings` lacks; what they read back goes there, and is remembered."""
    missing = {n: a for n, a in builds.artifacts.items() if n not in settings}
    if not missing:
        return
    from perfrunner.results import BuildRecord
    from perfrunner.run.preflight.builds import deploy_and_prove
    from perfrunner.run.preflight.hosts import open_hosts

    def keep(record: BuildRecord) -> None:
        settings[record.variant] = record.settings
        known.remember(record.variant, record.build_id, record.settings)

    with open_hosts(spec.cluster, run_id, listener, built_for=built_for) as hosts:
        deploy_and_prove(spec, replace(builds, artifacts=missing), hosts, listener, keep)


def _print(spec: Spec, builds: Builds, settings: Settings, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "builds": [
                    {
                        "variant": name,
                        "build_id": artifact.build_id,
                        "path": str(artifact.path),
                        "cached": artifact.cached,
                        "seconds": round(artifact.seconds, 3),
                        "settings": dict(settings[name]),
                        "provenance": artifact.provenance,
                    }
                    for name, artifact in builds.artifacts.items()
                ],
                "failures": builds.failures,
            }
        )
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("variant", "build id", "took", "read back", box=None)
    for name in spec.variants:
        if name in builds.failures:
            table.add_row(escape(name), "-", "failed", "-")
            continue
        artifact = builds.artifacts[name]
        took = "cached" if artifact.cached else duration(artifact.seconds)
        back = " ".join(f"{key}={value}" for key, value in settings[name].items())
        table.add_row(escape(name), artifact.build_id, took, escape(back or "nothing was asked"))
    result_console().print(table)
