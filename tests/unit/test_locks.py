"""requirements/*.txt, the locked Python packages, hold what pyproject.toml asks for. scripts/lock renews them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {"base": ("ssh", "sdk"), "dev": ("dev",)}
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def asked_for(extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Yield what a lock has to hold: the dependencies, those of the extras, and what builds the checkout."""
    for text in PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"]:
        yield Requirement(text)
    for extra in extras:
        for text in PROJECT["project"]["optional-dependencies"][extra]:
            requirement = Requirement(text)
            if requirement.name == PROJECT["project"]["name"]:
                yield from asked_for(tuple(sorted(requirement.extras)))
            else:
                yield requirement


def locked(kind: str, python: str) -> dict[str, str]:
    """Return the version of each package that a lock has for a version of Python on Linux."""
    environment = {
        "python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux",
        "platform_machine": "x86_64", "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }  # fmt: skip
    text = (ROOT / "requirements" / f"{kind}.txt").read_text().replace("\\\n", " ")
    versions: dict[str, str] = {}
    for line in text.splitlines():
        if not line or line.startswith(("#", " ")):
            continue
        assert "--hash=sha256:" in line
        entry = Requirement(re.sub(r"\s--hash=\S+", "", line))
        if entry.marker is None or entry.marker.evaluate(environment):
            (specifier,) = entry.specifier
            assert specifier.operator == "=="
            assert canonicalize_name(entry.name) not in versions
            versions[canonicalize_name(entry.name)] = specifier.version
    return versions


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("kind", LOCKS)
def test_a_lock_has_a_fitting_version_of_every_package(kind: str, python: str) -> None:
    versions = locked(kind, python)
    for requirement in asked_for(LOCKS[kind]):
        version = versions.get(canonicalize_name(requirement.name), "")
        assert version in requirement.specifier, (
            f"{requirement}, locked {version}: run scripts/lock"
        )


@pytest.mark.parametrize("python", PYTHONS)
def test_both_locks_have_the_same_versions(python: str) -> None:
    assert locked("base", python).items() <= locked("dev", python).items()
