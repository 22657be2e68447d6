"""IRIs of entities, for formats that name entities by nothing else."""

from __future__ import annotations

import re
import string
from urllib.parse import quote, unquote

# RFC 3987, without IP literals and private characters: an RDF reader refuses a whole file for one
# IRI that is none.
_PLANES = "".join(f"{chr(i << 16)}-{chr((i << 16) + 0xFFFD)}" for i in range(1, 14))
_PLAIN = rf"A-Za-z0-9\-._~!$&'()*+,;=\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}"
_HOST, _PATH, _QUERY = (f"(?:[{_PLAIN}{also}]|%[0-9A-Fa-f]{{2}})*" for also in ("", ":@/", ":@/?"))
_IRI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?=.)(?://(?:{_HOST}@)?{_HOST}(?::[0-9]*)?(?:/{_PATH})?|(?!//){_PATH})"
    rf"(?:\?{_QUERY})?(?:#{_QUERY})?"
)
OWN = "urn:decentrl:"
"""What the IRIs made here begin with; then come the side and, percent-encoded, the label."""
_OWN_ENTITY = re.compile(rf"{OWN}(?:left|right):(.+)", re.DOTALL)
_BYTES = re.compile("(?:%[89A-Fa-f][0-9A-Fa-f])+")  # of characters that are not ASCII


def is_iri(label: str) -> bool:
    """Whether a label can be written as an IRI as it is."""
    return bool(_IRI.fullmatch(label)) and not label.startswith(OWN)


def iri_of(label: str, side: str) -> str:
    """The label if it is an IRI, otherwise one made of it; different labels have different ones."""
    return label if is_iri(label) else f"{OWN}{side}:{quote(label, safe='')}"


def label_of(iri: str) -> str:
    """The label of which :func:`iri_of` made an IRI."""
    made = _OWN_ENTITY.fullmatch(iri)
    return unquote(made[1]) if made else iri


def uri_of(iri: str) -> str:
    """The URI of an IRI: what is not ASCII is percent-encoded (RFC 3987, section 3.1)."""
    return iri if iri.isascii() else quote(iri, safe=string.punctuation)


def iri_of_uri(uri: str) -> str:
    """The IRI of which :func:`uri_of` makes a URI; what is not UTF-8 stays percent-encoded."""
    return _BYTES.sub(_decoded, uri)


def _decoded(found: re.Match[str]) -> str:
    try:
        return unquote(found[0], errors="strict")
    except UnicodeDecodeError:
        return found[0]
