"""Shell completion of arguments: stored experiments, metrics, and the names in a spec.

It runs at each press of TAB and must be fast: it reads the store with sqlite3 and a spec as a plain
tree, without SQLAlchemy or pydantic. If the store or the spec is broken, it proposes nothing; the
command itself reports the error.
"""

from __future__ import annotations

import functools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from perfrunner.children import STORE_VARIABLE
from perfrunner.errors import PerfrunnerError
from perfrunner.paths import STORE_FILE, real_path, with_home

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
STORE_META = "perfrunner.store"  # key of the value of --store in the click context
_BUSY_S = 0.2  # how long to wait for a run that is writing to the store


def _proposing(propose: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Completer:
    """Make a completer from a function that yields (name, help) pairs; each name is proposed once."""

    @functools.wraps(propose)
    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        names: dict[str, str] = {}
        with suppress(PerfrunnerError, OSError, ValueError, TypeError, KeyError, sqlite3.Error):
            for name, text in propose(ctx):
                names.setdefault(name, text)
        return [
            CompletionItem(n, help=h or None) for n, h in names.items() if n.startswith(incomplete)
        ]

    return complete


def _listed(complete: Completer) -> Completer:
    """Make a completer for `NAME,...`, which completes the last name. A name may contain commas."""

    @functools.wraps(complete)
    def completer(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from perfrunner.spec.suggest import split_names

        every = complete(ctx, param, "")
        known = tuple(item.value for item in every)
        items = [item for item in every if item.value.startswith(incomplete)]
        for at, character in enumerate(incomplete):
            if character != ",":
                continue
            done, rest = incomplete[:at], incomplete[at + 1 :]
            chosen = split_names(done, known)
            items += [
                CompletionItem(f"{done},{item.value}", help=item.help)
                for item in every
                if chosen is not None and item.value not in chosen and item.value.startswith(rest)
            ]
        return items

    return completer


def _given(ctx: click.Context, name: str) -> Any:
    """Return an argument or option of the command line so far.

    click leaves arguments unparsed if they precede an option that still lacks its value.
    """
    value = ctx.params.get(name)
    arguments = [p.name for p in ctx.command.params if isinstance(p, click.Argument)]
    if value is None and name in arguments and len(ctx.args) > arguments.index(name):
        value = ctx.args[arguments.index(name)]
    return value


# --- the store


def _rows(ctx: click.Context, query: str, *values: str) -> list[tuple[Any, ...]]:
    """Query the store of --out, or the file of --store. Creates nothing and does not wait for locks."""
    url = ctx.meta.get(STORE_META) or os.environ.get(STORE_VARIABLE)
    if url:
        if not url.startswith("sqlite:///"):
            return []  # a server may be slow or unreachable
        path = real_path(Path(url.removeprefix("sqlite:///").partition("?")[0]))
    else:
        given = _given(ctx, "out_dir") or os.environ.get("PERFRUNNER_OUT") or "perfrunner-results"
        path = real_path(with_home(given) / STORE_FILE)
    with closing(
        sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, timeout=_BUSY_S)
    ) as db:
        return db.execute(query, values).fetchall()


def _experiments(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the ids of the experiments, newest first, then the names of their specs."""
    known = _rows(ctx, "SELECT id, name, state FROM experiments ORDER BY created_at DESC")
    yield from ((identifier, state) for identifier, _, state in known)
    yield from ((name, "the latest of this spec") for _, name, _ in known)


def _latest(ctx: click.Context) -> str:
    """Return the id of the experiment on the command line, or of the newest. Raises KeyError."""
    named = _given(ctx, "experiment") or _given(ctx, "spec_name")
    known = _rows(ctx, "SELECT id, name FROM experiments ORDER BY created_at DESC")
    for identifier, name in known:
        if named is None or identifier.startswith(str(named)) or name == named:
            return str(identifier)
    raise KeyError(named)


def _stored_variants(ctx: click.Context) -> Iterator[tuple[str, str]]:
    latest = _latest(ctx)
    ((spec,),) = _rows(ctx, "SELECT spec_json FROM experiments WHERE id = ?", latest)
    yield from ((name, f"a variant of {latest}") for name in json.loads(spec)["variants"])


def _metrics(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the metrics of the spec or of the store, then all built-in metrics."""
    from perfrunner.spec.metrics import METRICS

    def titled(name: str) -> tuple[str, str]:
        return name, METRICS[name].title if name in METRICS else ""

    if _given(ctx, "spec_path"):
        yield from map(titled, _names(ctx, "primary"))
    elif "spec_path" not in ctx.params:
        with suppress(KeyError, OSError, sqlite3.Error):
            query = "SELECT metrics FROM trials WHERE experiment_id = ? AND status = 'ok' GROUP BY workload"
            for (metrics,) in _rows(ctx, query, _latest(ctx)):
                yield from map(titled, json.loads(metrics))
    yield from map(titled, METRICS)


# --- the spec


def _names(ctx: click.Context, key: str) -> list[str]:
    """Return the names in one part of the spec on the command line (for `ab`: of its small spec)."""
    from perfrunner.spec.assemble import spec_tree
    from perfrunner.spec.document import Problems, plain
    from perfrunner.spec.small import SMALL

    path = _given(ctx, "spec_path")
    if path is None:
        return [*SMALL[key]] if ctx.info_name == "ab" else []
    overrides, profile = ctx.params.get("overrides") or (), ctx.params.get("profile")
    tree = spec_tree(with_home(path), Problems(), overrides, None, profile)
    node = tree.get(key)
    return [] if node is None else [str(name) for name in plain(node)]


def _profiles(ctx: click.Context) -> Iterator[tuple[str, str]]:
    from perfrunner.spec.assemble import profile_names

    path = _given(ctx, "spec_path")
    yield from ((name, "") for name in (profile_names(with_home(path)) if path else ()))


def clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Propose `local` and files."""
    from perfrunner.spec.small import LOCAL

    del ctx, param
    here = [CompletionItem(LOCAL, help="this machine")] if LOCAL.startswith(incomplete) else []
    return [*here, CompletionItem(incomplete, type="file")]


experiments = _proposing(_experiments)
stored_variants = _proposing(_stored_variants)
# The arguments of `compare`.
comparable = _proposing(lambda ctx: [*_stored_variants(ctx), *_experiments(ctx)])
metrics = _proposing(_metrics)
profiles = _proposing(_profiles)
variant = _proposing(lambda ctx: [(name, "") for name in _names(ctx, "variants")])
variants = _listed(variant)
workloads = _listed(_proposing(lambda ctx: [(name, "") for name in _names(ctx, "workloads")]))
