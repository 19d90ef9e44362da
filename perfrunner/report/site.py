"""Build the site: read each store once, and link to the reports next to the trials."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.history import histories
from perfrunner.analysis.nights import Night, followed_metrics, nights
from perfrunner.analysis.noise import is_aa
from perfrunner.paths import PAGE
from perfrunner.report.charts.style import VARIANTS
from perfrunner.report.environment import definition
from perfrunner.report.history import history_document, run_text
from perfrunner.report.html import embedded, render_page, slug
from perfrunner.report.numbers import LARGE_RATIO
from perfrunner.report.redact import redacted_record
from perfrunner.results import open_store
from perfrunner.results.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfrunner.results import ExperimentRecord, ExperimentSummary


MOST_RUNS = 200  # newest runs in the history of a spec
MOST_CHANGES = 3  # latest changes of level of a spec in the index


@dataclass(frozen=True)
class Entry:
    """An experiment of the index. `link` leads to its report, or is None."""

    summary: ExperimentSummary
    store: Path
    link: str | None

    @property
    def record(self) -> ExperimentRecord:
        return self.summary.experiment


def write_site(stores: Sequence[Path], directory: Path, url: str | None = None) -> list[Path]:
    """Write index.html and its pages to `directory` and return their paths; other files there are kept.

    `url`: a database that holds the results of all `stores`, which then only contain the reports.
    """
    entries, data = _read(stores, directory, url)
    specs: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        specs[entry.record.name].append(entry)
    pages: dict[str, str] = {}
    changes: dict[str, list[str]] = {}
    for name, of_spec in specs.items():
        charts = _histories(data.get(name, []))
        changes[name] = _changes(charts)
        links = {e.record.id: e.link for e in of_spec}
        pages[f"spec-{slug(name)}.html"] = render_page(
            "site_spec.html.j2", name=name, entries=of_spec,
            data=embedded({"charts": charts, "links": links, "colours": VARIANTS, "large": LARGE_RATIO}),
        )  # fmt: skip
    variants, hosts = _variants(entries), _hosts(entries)
    for kind, groups in (("variant", variants), ("host", hosts)):
        for name, group in groups.items():
            pages[f"{kind}-{slug(name)}.html"] = render_page(
                "site_list.html.j2", kind=kind, name=name, entries=group,
                what=_definitions(name, group) if kind == "variant" else [],
            )  # fmt: skip
    pages["index.html"] = render_page(
        "site_index.html.j2", entries=entries, specs=specs, changes=changes, variants=variants, hosts=hosts
    )  # fmt: skip
    written = [write_whole(directory / name, text.encode()) for name, text in pages.items()]
    for name in ("vendor/echarts/echarts.js", "points.js", "site.js"):
        text = files("perfrunner.report").joinpath(name).read_text("utf-8")
        written.append(write_whole(directory / Path(name).name, text.encode()))
    return written


def _read(
    stores: Sequence[Path], directory: Path, url: str | None
) -> tuple[list[Entry], dict[str, list[Night]]]:
    """Return all experiments, newest first, and the newest runs of each spec, oldest first."""
    entries: list[Entry] = []
    data: dict[str, list[Night]] = {}
    for place in stores if url is None else stores[:1]:
        with open_store(place, url, create=False) as store:
            runs: dict[str, list[ExperimentSummary]] = defaultdict(list)
            shown: dict[str, ExperimentRecord] = {}
            for summary in store.list():
                record = summary.experiment
                shown[record.id] = redacted_record(record)
                redacted = replace(summary, experiment=shown[record.id])
                places = (place,) if url is None else stores
                links = (_link(store_dir, record.id, directory) for store_dir in places)
                entries.append(Entry(redacted, place, next(filter(None, links), None)))
                if record.state == "done" and not is_aa(record.spec_json):
                    runs[record.name].append(summary)
            for name, of_spec in runs.items():
                metrics = followed_metrics(of_spec[-1].experiment)
                data.setdefault(name, []).extend(
                    replace(night, record=shown[night.experiment])
                    for night in nights(
                        of_spec[-MOST_RUNS:], store.load, metrics, store.derived_directory
                    )
                )
    entries.sort(key=lambda e: (e.record.created_at, e.record.id), reverse=True)
    for runs_of_spec in data.values():
        runs_of_spec.sort(key=lambda night: (night.created_at, night.experiment))
    return entries, data


def _link(store: Path, experiment: str, directory: Path) -> str | None:
    place = (store if store.is_dir() else store.parent) / experiment / PAGE
    return (
        Path(os.path.relpath(place.resolve(), directory.resolve())).as_posix()
        if place.exists()
        else None
    )


def _histories(runs: Sequence[Night]) -> list[dict[str, Any]]:
    """Return the history of each followed metric of the newest run, oldest run first."""
    if not runs:
        return []
    documents = []
    for followed in histories(runs, followed_metrics(runs[-1].record)):
        document = history_document([followed])
        for series, drawn in zip(followed.series, document["series"], strict=True):
            drawn["texts"] = [run_text(series, r) for r in series.runs] if series.kind else []
            drawn["verdicts"] = [series.verdict(n) for n in range(len(series.levels))]
        documents.append(document)
    return documents


def _changes(charts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the latest changes of level of the primary metrics, newest first."""
    alarms = [alarm for chart in charts for alarm in chart["alarms"]]
    alarms.sort(key=lambda alarm: str(alarm["first_at"]), reverse=True)
    return [alarm["text"] for alarm in alarms[:MOST_CHANGES]]


def _definitions(variant: str, entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Return the definitions of a variant name in specs, newest first; a name can have several."""
    by_text: dict[str, list[Entry]] = {}
    for entry in entries:
        spec = entry.record.spec_json
        common = (spec.get("engine") or {}).get("params")
        text = definition((spec.get("variants") or {}).get(variant) or {}, common)
        by_text.setdefault(text or "default settings", []).append(entry)
    return list(by_text.items())


def _variants(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    by_variant: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        for name in entry.record.spec_json.get("variants") or {}:
            by_variant[str(name)].append(entry)
    return dict(sorted(by_variant.items()))


def _hosts(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Group entries by host: its name in the spec, CPU, memory and kernel, not its address."""
    by_host: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        hosts = entry.record.facts.get("hosts")
        for name, facts in hosts.items() if isinstance(hosts, dict) else ():
            if isinstance(facts, dict):
                memory = facts.get("memory_bytes")
                parts = [facts.get("cpu_model"), f"{facts['cpus']} CPUs" if "cpus" in facts else None,
                         f"{memory / 1e9:.0f} GB" if isinstance(memory, int) else None,
                         f"Linux {facts['kernel']}" if "kernel" in facts else None]  # fmt: skip
                by_host[", ".join([str(name), *(str(p) for p in parts if p)])].append(entry)
    return dict(sorted(by_host.items()))
