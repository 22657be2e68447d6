"""N-Triples piece by piece: ordinary statements by a pattern, all others by the parser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decentrl.data.rdf import read_statements
from decentrl.data.table import string_columns
from decentrl.errors import InputError

# A part of what an IRI may be: what is not matched here is left to the parser.
_ANY = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}|[\x{A0}-\x{D7FF}])*"
_HOST = rf"//[A-Za-z0-9._-]+(?::[0-9]+)?(?:[/?]{_ANY})?"
_IRI = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{_HOST}|[A-Za-z0-9._~!$&'()*+,;=:@-]{_ANY})(?:#{_ANY})?"
_BLANK = "[ \t]*"
_STATEMENT = _BLANK.join(["^", *(f"<(?P<{x}>{_IRI})>" for x in "hrt"), r"\.", "$"])


class Statements:
    """The statements of a file, piece by piece; blank nodes are not for it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._literals: list[pa.Table] = []

    def columns_of(self, data: bytes, lines: int) -> tuple[pa.ChunkedArray, ...] | None:
        """Heads, relations and tails of whole lines after so many others; None for blank nodes."""
        text = _lines(data)
        if text is None:
            return None
        found = pc.extract_regex(text, _STATEMENT)
        plain = pc.is_valid(found)
        places = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
        columns = [pc.struct_field(found, name).filter(plain) for name in "hrt"]
        if not len(places):
            return tuple(pa.chunked_array([column]) for column in columns)
        others = "\n".join(text.filter(pc.invert(plain)).to_pylist()).encode()
        if b"_:" in others:
            return None
        try:
            rows, _, literals = read_statements(others, self._file, "nt")
        except InputError as error:
            if error.line is None:
                raise
            line = int(places[error.line - 1]) + 1 + lines
            raise InputError(
                error.problem, file=self._file, line=line, remedy=error.remedy
            ) from None
        self._literals.append(literals)
        more = string_columns(zip(*rows, strict=True)) if rows else string_columns([()] * 3)
        return tuple(
            pa.chunked_array([own, *other.chunks]) for own, other in zip(columns, more, strict=True)
        )

    def literals(self) -> pa.Table | None:
        """The statements about literals of all pieces."""
        return pa.concat_tables(self._literals) if self._literals else None


def _lines(data: bytes) -> pa.Array | None:
    """The lines of a text, or None if it is no UTF-8."""
    options = {
        "read_options": pyarrow.csv.ReadOptions(column_names=["line"], block_size=len(data) + 1),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter="\x01", quote_char=False, double_quote=False, escape_char=False,
            newlines_in_values=False, ignore_empty_lines=False,
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types={"line": pa.string()}, strings_can_be_null=False, null_values=[]
        ),
    }  # fmt: skip
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(data), **options)["line"].combine_chunks()
    except pa.ArrowException:
        return None
