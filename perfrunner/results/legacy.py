"""Translate records stored by earlier versions into today's names.

Schema version 4 introduced the vocabulary of docs/glossary.md: "arm" became "variant", "ensemble" became
"group", "void" became "discarded", and so on. In version 5 an allocator's "profile" became its "preset". The database
migrations and the readers of archives use these functions, so that old results are read by one set of rules. Every
function returns a new value and accepts a record that already has today's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SPEC_KEYS = {"gains": "expected_gains", "reference": "published"}
_LIMIT_KEYS = {"arms": "group_size", "max_voids": "max_discarded"}
_VARIANT_KEYS = {"proof": "settings_check"}
_ALLOCATOR_KEYS = {"profile": "preset"}
_OPTION_KEYS = {"planted": "injected"}
_TRIAL_KEYS = {"ensemble": "group"}
_FACT_KEYS = {"layouts": "groupings"}
_SETTING_KEYS = {"options.planted": "options.injected"}
_WORDS = {"side-by-side": "interleaved", "void": "discarded"}


def current_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec (as JSON) with today's keys."""
    spec_now = _renamed(spec, _SPEC_KEYS)
    if isinstance(spec_now.get("limits"), Mapping):
        spec_now["limits"] = _renamed(spec_now["limits"], _LIMIT_KEYS)
    if isinstance(spec_now.get("variants"), Mapping):
        spec_now["variants"] = {
            name: _variant(value) for name, value in spec_now["variants"].items()
        }
    if isinstance(spec_now.get("workloads"), Mapping):
        spec_now["workloads"] = {
            name: _worded(value) for name, value in spec_now["workloads"].items()
        }
    return dict(_worded(spec_now))


def current_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an experiment with today's keys: groupings, sources and the sampling check."""
    facts_now = _renamed(facts, _FACT_KEYS)
    if isinstance(facts_now.get("groupings"), Mapping):
        facts_now["groupings"] = {
            name: _worded(_renamed(grouping, {"arms": "group_size"}))
            for name, grouping in facts_now["groupings"].items()
        }
    if isinstance(facts_now.get("sources"), Mapping):
        facts_now["sources"] = _renamed(facts_now["sources"], {"arms": "variants"})
    if isinstance(facts_now.get("sampling_check"), list):
        renamed = {"side_by_side": "interleaved"}
        facts_now["sampling_check"] = [
            _worded(_renamed(record, renamed)) for record in facts_now["sampling_check"]
        ]
    return facts_now


def current_trial_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of one trial with today's keys."""
    return dict(_worded(_renamed(facts, {"arms": "variants"})))


def current_status(status: str) -> str:
    """Return today's word for the way in which a trial ended."""
    return _WORDS.get(status, status)


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that were read back from a build, by today's names of the build switches."""
    return _renamed(settings, _SETTING_KEYS)


def current_trial(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a kept trial record by today's names."""
    trial = _renamed(record, _TRIAL_KEYS)
    trial["status"] = current_status(trial["status"])
    trial["facts"] = current_trial_facts(trial["facts"])
    return trial


def _variant(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    variant = _renamed(value, _VARIANT_KEYS)
    if isinstance(variant.get("allocator"), Mapping):
        variant["allocator"] = _renamed(variant["allocator"], _ALLOCATOR_KEYS)
    if isinstance(variant.get("options"), Mapping):
        variant["options"] = _renamed(variant["options"], _OPTION_KEYS)
    return variant


def _renamed(record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in record.items()}


def _worded(record: Any) -> Any:
    """Replace the old words among the values of one record: how trials are scheduled and how they ended."""
    if not isinstance(record, Mapping):
        return record
    return {
        key: _WORDS.get(value, value) if key in ("schedule", "status") else value
        for key, value in record.items()
    }
