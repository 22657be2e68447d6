"""An extension of griffe, which reads the docstrings for the site."""

from __future__ import annotations

from typing import Any

import griffe

from tools.site.markdown import as_markdown


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
