"""From stores to files: reads each store once, links to the reports that lie beside the trials."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.history import history
from perfrunner.analysis.nights import Night, nights, primary_metrics
from perfrunner.analysis.noise import is_aa
from perfrunner.report.charts.style import ARMS
from perfrunner.report.files import write_whole
from perfrunner.report.history import history_document, run_text
from perfrunner.report.numbers import LARGE_RATIO
from perfrunner.report.redact import redacted_record
from perfrunner.report.variants import definition
from perfrunner.results import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from perfrunner.results import ExperimentRecord, ExperimentSummary

PAGE = "report.html"  # beside an experiment's trials
MOST_RUNS = 200  # of a spec's history: the newest
MOST_CHANGES = 3  # of level, of a spec in the index: the latest


@dataclass(frozen=True)
class Entry:
    """An experiment of the index. `link` leads to its report, where there is one; None otherwise."""

    summary: ExperimentSummary
    store: Path
    link: str | None

    @property
    def record(self) -> ExperimentRecord:
        return self.summary.experiment


def write_site(stores: Sequence[Path], directory: Path, url: str | None = None) -> list[Path]:
    """index.html and what it leads to, in `directory`; the paths. What was there of other names stays.

    `url`: the one database of all of `stores`, which then are where the reports are.
    """
    entries, data = _read(stores, directory, url)
    specs: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        specs[entry.record.name].append(entry)
    pages: dict[str, str] = {}
    changes: dict[str, list[str]] = {}
    for name, its in specs.items():
        charts = _histories(data.get(name, []))
        changes[name] = _changes(charts)
        links = {e.record.id: e.link for e in its}
        pages[f"spec-{slug(name)}.html"] = _render(
            "site_spec.html.j2", name=name, entries=its,
            data=_embedded({"charts": charts, "links": links, "colours": ARMS, "large": LARGE_RATIO}),
        )  # fmt: skip
    variants, hosts = _variants(entries), _hosts(entries)
    for kind, found in (("variant", variants), ("host", hosts)):
        for name, its in found.items():
            pages[f"{kind}-{slug(name)}.html"] = _render(
                "site_list.html.j2", kind=kind, name=name, entries=its,
                what=_definitions(name, its) if kind == "variant" else [],
            )  # fmt: skip
    pages["index.html"] = _render(
        "site_index.html.j2", entries=entries, specs=specs, changes=changes, variants=variants, hosts=hosts
    )  # fmt: skip
    written = [write_whole(directory / name, text.encode()) for name, text in pages.items()]
    for name in ("vendor/echarts/echarts.js", "points.js", "site/site.js"):
        text = files("perfrunner.report").joinpath(name).read_text("utf-8")
        written.append(write_whole(directory / Path(name).name, text.encode()))
    return written


def slug(name: str) -> str:
    """A file's name for any name; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _read(
    stores: Sequence[Path], directory: Path, url: str | None
) -> tuple[list[Entry], dict[str, list[Night]]]:
    """All experiments, the newest first; and the newest runs of each spec, oldest first."""
    entries: list[Entry] = []
    data: dict[str, list[Night]] = {}
    for place in stores if url is None else stores[:1]:
        with open_store(place, url, create=False) as store:
            runs: dict[str, list[ExperimentSummary]] = defaultdict(list)
            shown: dict[str, ExperimentRecord] = {}
            for summary in store.list():
                record = summary.experiment
                shown[record.id] = redacted_record(record)
                told = replace(summary, experiment=shown[record.id])
                places = (place,) if url is None else stores
                links = (_link(one, record.id, directory) for one in places)
                entries.append(Entry(told, place, next(filter(None, links), None)))
                if record.state == "done" and not is_aa(record.spec_json):
                    runs[record.name].append(summary)
            for name, its in runs.items():
                metrics = primary_metrics(its[-1].experiment)
                data.setdefault(name, []).extend(
                    replace(night, record=shown[night.experiment])
                    for night in nights(its[-MOST_RUNS:], store.load, metrics, store.beside)
                )
    entries.sort(key=lambda e: (e.record.created_at, e.record.id), reverse=True)
    for found in data.values():
        found.sort(key=lambda night: (night.created_at, night.experiment))
    return entries, data


def _link(store: Path, experiment: str, directory: Path) -> str | None:
    place = (store if store.is_dir() else store.parent) / experiment / PAGE
    return (
        Path(os.path.relpath(place.resolve(), directory.resolve())).as_posix()
        if place.exists()
        else None
    )


def _histories(runs: Sequence[Night]) -> list[dict[str, Any]]:
    """Of each primary metric of the newest run, oldest run first."""
    if not runs:
        return []
    primary = primary_metrics(runs[-1].record)
    found = []
    for metric in primary:
        followed = history(runs, metric, metrics=len(primary))
        document = history_document([followed])
        for series, drawn in zip(followed.series, document["series"], strict=True):
            drawn["texts"] = [run_text(series, r) for r in series.runs] if series.kind else []
            drawn["turns"] = [series.turn(n) for n in range(len(series.levels))]
        found.append(document)
    return found


def _changes(charts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The latest changes of level of the primary metrics, the newest first."""
    found = [alarm for chart in charts for alarm in chart["alarms"]]
    found.sort(key=lambda alarm: str(alarm["first_at"]), reverse=True)
    return [alarm["text"] for alarm in found[:MOST_CHANGES]]


def _definitions(variant: str, entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """What specs meant by the name, the newest first; one name may stand for several things."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        spec = entry.record.spec_json
        common = (spec.get("engine") or {}).get("params")
        text = definition((spec.get("variants") or {}).get(variant) or {}, common)
        found.setdefault(text or "no settings of its own", []).append(entry)
    return list(found.items())


def _variants(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        for name in entry.record.spec_json.get("variants") or {}:
            found[str(name)].append(entry)
    return dict(sorted(found.items()))


def _hosts(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """By what a host is, not by its address: its name in the cluster, CPU, memory and kernel."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        hosts = entry.record.facts.get("hosts")
        for name, facts in hosts.items() if isinstance(hosts, dict) else ():
            if isinstance(facts, dict):
                memory = facts.get("memory_bytes")
                parts = [facts.get("cpu_model"), f"{facts['cpus']} CPUs" if "cpus" in facts else None,
                         f"{memory / 1e9:.0f} GB" if isinstance(memory, int) else None,
                         f"Linux {facts['kernel']}" if "kernel" in facts else None]  # fmt: skip
                found[", ".join([str(name), *(str(p) for p in parts if p)])].append(entry)
    return dict(sorted(found.items()))


def _embedded(content: Any) -> Any:
    from markupsafe import Markup

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(
        text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    )  # cannot end the script element


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    """One for all pages: each has its templates to compile."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("perfrunner.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["slug"] = slug
    return environment
