"""`perfrunner build`: build and check every variant without measuring anything.

Passed settings checks are remembered, so that a repeated call need not start the engines again. A settings check is
valid for one build, one set of run-time settings and one cluster. `run` does not use remembered checks: it checks
every variant on the hosts that it is going to measure.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from perfrunner.cli import options
from perfrunner.cli.output import duration, print_json, print_table
from perfrunner.cli.request import RunOptions, find_engine_source, gathered, read_spec
from perfrunner.errors import EXIT_FAILED

if TYPE_CHECKING:
    from perfrunner.build.builders import Platform
    from perfrunner.experiment.events import Listener
    from perfrunner.experiment.preflight.builds import Builds
    from perfrunner.spec.model import Spec


Settings = dict[str, Mapping[str, str]]


@click.command(
    "build",
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
@click.option(
    "--check-again",
    is_flag=True,
    help="Repeat all settings checks (default: only those of builds and settings not checked before).",
)
@options.json_option
@options.quiet_option
@click.pass_context
@gathered(RunOptions, "given")
def command(ctx: click.Context, spec_path: Path, check_again: bool, given: RunOptions) -> None:
    """Build every variant of SPEC and check that each starts with its settings. Print the build ids."""
    spec = given.selected(read_spec(spec_path, given))
    source = find_engine_source(given.engine_src, spec_path)
    from perfrunner.build.builders import open_builder
    from perfrunner.cli.progress import progress_listener
    from perfrunner.experiment.preflight.builds import build_all
    from perfrunner.sources.resolve import resolve_sources

    sources = resolve_sources(spec, source, given.cache_dir)
    run_id = f"build-{int(time.time())}-{os.getpid()}"
    with (
        progress_listener(given.quiet) as listener,
        open_builder(spec.cluster, given.cache_dir, run_id) as builder,
    ):
        if spec.cluster.transport == "ssh" or spec.cluster.build_host is not None:
            from perfrunner.experiment.preflight.hosts import refuse_unfit

            refuse_unfit(spec.cluster, run_id, builder.platform)
        builds = build_all(spec, sources, builder, given.cache_dir, listener)
        known = RememberedSettingsChecks(given.cache_dir, spec)
        settings = {} if check_again else _remembered(known, builds)
        _check(spec, builds, builder.platform, run_id, listener, known, settings)
    _print(spec, builds, settings, given.as_json)
    if builds.failures:
        ctx.exit(EXIT_FAILED)


def _remembered(known: RememberedSettingsChecks, builds: Builds) -> Settings:
    """Return the settings of each variant that passed a settings check before."""
    earlier = {name: known.find(name, built.build_id) for name, built in builds.all.items()}
    return {name: settings for name, settings in earlier.items() if settings is not None}


def _check(
    spec: Spec,
    builds: Builds,
    built_for: Platform,
    run_id: str,
    listener: Listener,
    known: RememberedSettingsChecks,
    settings: Settings,
) -> None:
    """Check the variants that `settings` lacks, and add and remember the settings read back."""
    missing = {n: a for n, a in builds.artifacts.items() if n not in settings}
    others = {n: s for n, s in builds.servers.items() if n not in settings}
    if not missing and not others:
        return
    from perfrunner.experiment.preflight.builds import deploy_and_check
    from perfrunner.experiment.preflight.hosts import open_hosts
    from perfrunner.results import BuildRecord

    def keep(record: BuildRecord) -> None:
        settings[record.variant] = record.settings
        prepared = builds.all[record.variant]  # its id is known before it is started
        known.remember(record.variant, prepared.build_id, record.settings)

    with open_hosts(spec.cluster, run_id, listener, built_for=built_for) as hosts:
        deploy_and_check(
            spec,
            replace(builds, artifacts=missing, servers=others),
            hosts,
            listener,
            keep,
            known.cache_dir,
        )


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
                    for name, artifact in builds.all.items()
                ],
                "failures": builds.failures,
            }
        )
        return
    rows = []
    for name in spec.variants:
        if name in builds.failures:
            rows.append((name, "-", "failed", "-"))
            continue
        artifact = builds.all[name]
        taken = "cached" if artifact.cached else duration(artifact.seconds)
        values = " ".join(f"{key}={value}" for key, value in settings[name].items())
        rows.append((name, artifact.build_id, taken, values or "none to check"))
    print_table(("variant", "build id", "duration", "settings read back"), rows)


class RememberedSettingsChecks:
    """The settings checks in the cache directory, one file for each."""

    def __init__(self, cache_dir: Path, spec: Spec) -> None:
        self.cache_dir = cache_dir
        self._directory = cache_dir / "settings_checks"
        self._spec = spec

    def find(self, variant: str, build_id: str) -> Mapping[str, str] | None:
        """Return the settings that were read back, or None without a readable settings check."""
        try:
            text = self._path(variant, build_id).read_text(encoding="utf-8")
            return cast("Mapping[str, str]", json.loads(text)["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # the variant is checked again and the file rewritten

    def remember(self, variant: str, build_id: str, settings: Mapping[str, str]) -> None:
        """Store a settings check; the file is renamed into place, so a reader sees all or nothing."""
        from perfrunner.build.ninja import write_json

        document = {"variant": variant, "build_id": build_id, "settings": dict(settings)}
        write_json(self._path(variant, build_id), document)

    def _path(self, variant: str, build_id: str) -> Path:
        key = {
            "build_id": build_id,
            "variant": self._spec.variants[variant].model_dump(
                mode="json", exclude={"name", "source"}
            ),
            "params": self._spec.params_of(variant),
            "engine": self._spec.engine.model_dump(mode="json"),
            "cluster": self._spec.cluster.model_dump(mode="json"),
        }
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return self._directory / f"{digest[:32]}.json"
