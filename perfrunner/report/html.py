"""Render pages from the templates in templates/. All contents are escaped; JSON cannot end its script element."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render_page(template: str, **values: Any) -> str:
    """Return the text of a page."""
    return _environment().get_template(template).render(**values)


def embedded(content: Any) -> Markup:
    """Return values as JSON for a script element."""
    from markupsafe import Markup

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def slug(name: str) -> str:
    """Return a file name for any name; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _breakable(name: object, *ends: str) -> Markup:
    from markupsafe import Markup

    from perfrunner.report.charts.dots import pieces

    return Markup("<wbr>").join(pieces(str(name), *ends))


@cache
def _environment() -> Environment:
    """Return the environment, shared by all pages to compile templates once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("perfrunner.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"slug": slug, "breakable": _breakable}
    return environment
