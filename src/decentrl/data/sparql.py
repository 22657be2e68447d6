"""Asks a SPARQL endpoint for triples or links, page by page, and makes N-Triples of them."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.request as web
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

from decentrl._version import __version__
from decentrl.data.limits import Limit
from decentrl.data.rdf import SAME_AS
from decentrl.data.web import TIMEOUT, Opener, check_address, check_seconds, deadline, reason_of
from decentrl.errors import InputError, MissingExtraError, warn_format

PAGE = 10_000
SECONDS = 600.0
_AGAIN = "ask for less, or give more seconds by --timeout"
_MEDIA = "application/sparql-results+json"
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_SELECT = re.compile(r"(?:(?:PREFIX\s*[^\s:]*:|BASE)\s*<[^>]*>\s*)*SELECT\b", re.IGNORECASE)
_ENDS = re.compile(r"\b(LIMIT|OFFSET)\s+\d+\s*$", re.IGNORECASE)
_SORTED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)


def ask_endpoint(
    url: str,
    query: str,
    page: int = PAGE,
    seconds: float = SECONDS,
    progress: Callable[[int], None] | None = None,
) -> Iterator[bytes]:
    """The rows of a SELECT query as N-Triples, a block for each page.

    Three variables are subject, predicate and object, two are the ends of a link, which becomes an
    ``owl:sameAs`` statement. Rows with an unbound variable are left out. Blank nodes of two pages
    are never one, as their names mean nothing outside of an answer.

    Args:
        page: LIMIT of each request; the OFFSET grows by the rows that came, until none come.
        seconds: that all of it may take.
        progress: called with the number of rows so far.
    """
    check_address(url)
    check_seconds(seconds)
    bare = _checked(query)
    try:
        import pyoxigraph as ox
    except ImportError:
        raise MissingExtraError("asking an endpoint", "pyoxigraph", "rdf") from None
    limit, last = Limit(url), b""
    size = rows = written = pages = count = 0
    with deadline(seconds, _AGAIN) as opener:
        while True:
            asked = f"{query.rstrip()}\nLIMIT {page} OFFSET {rows}"
            data = _post(opener, url, asked, limit)
            this = hashlib.sha256(data).digest()
            if this == last and count > page:  # it knows neither LIMIT nor OFFSET; that was all
                break
            block, count, kept = _statements(ox, data, url, pages)
            if not count:
                break
            if this == last:
                problem = f"the answer from row {rows:,} on is the one before once more"
                raise _error(url, problem, "give a larger --page: this server ignores OFFSET")
            last, rows, written, pages = this, rows + count, written + kept, pages + 1
            size += len(block)
            limit.check(size)
            if progress:
                progress(rows)
            yield block
    if not written:
        raise _error(url, "no row has a value for each variable", "try the query on its page")
    if written < rows:
        warn_format(f"{url}: {rows - written:,} of {rows:,} rows left out: a variable has no value")
    if pages > 1 and not _SORTED.search(bare):
        warn_format(
            f"{url}: {pages} pages without ORDER BY, which a server may sort differently each "
            "time: rows may be missing"
        )


def _checked(query: str) -> str:
    """The query without comments, if it can be asked page by page."""
    bare = _COMMENT.sub("", query).strip()
    if not _SELECT.match(bare):
        raise InputError(
            "the query is no SELECT query",
            remedy="write SELECT ?subject ?predicate ?object WHERE { … }, or select two of links",
        )
    if found := _ENDS.search(bare):
        raise InputError(
            f"the query ends in {found[1]}", remedy="remove it: pages are asked for by --page"
        )
    return bare


def _error(url: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, file=url, remedy=remedy)


def _post(opener: Opener, url: str, query: str, limit: Limit) -> bytes:
    """The server's answer to a query."""
    headers = {
        "Accept": _MEDIA,
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": f"decentrl/{__version__}",
    }
    request = web.Request(url, urlencode({"query": query}).encode(), headers)
    try:
        with opener.open(request, timeout=TIMEOUT) as response:

            def read(size: int) -> bytes:
                opener.check()
                return bytes(response.read1(size))

            data = limit.read(read)
            opener.check()
            return data
    except HTTPError as error:
        said = _first_line(error)
        problem = f"the server answered {error.code} {error.reason}{said}"
        raise _error(url, problem, "check the address and the query") from None
    # ValueError: an address, also one of a redirection, that is none.
    except (http.client.HTTPException, OSError, ValueError, OverflowError) as error:
        opener.check()
        if isinstance(error, InputError):
            raise
        raise _error(url, f"no answer ({reason_of(error)})", "check the address") from None


def _first_line(error: HTTPError) -> str:
    """What the server says of an error, shortened."""
    try:
        said = error.read1(1000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, AttributeError):
        return ""
    finally:
        error.close()
    said = " ".join(re.sub(r"<[^>]*>", " ", said).split())[:200]
    return f" ({said})" if said else ""


def _statements(ox: Any, data: bytes, url: str, page: int) -> tuple[bytes, int, int]:
    """N-Triples of an answer, how many rows it has, and how many of these have all values."""
    try:
        variables, rows = _rows(ox, data)
    except (SyntaxError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise _error(
            url,
            f"the answer is no SPARQL result in JSON ({why})",
            "give the address of an endpoint",
        ) from None
    if variables not in (2, 3):
        raise _error(
            url,
            f"the query has {variables} variable(s)",
            "select subject, predicate and object, or the two ends of links",
        )
    whole = [row for row in rows if None not in row]
    same = ox.NamedNode(SAME_AS)
    triples = []
    for row in whole:
        subject, predicate, value = row if variables == 3 else (row[0], same, row[1])
        if variables == 2 and isinstance(value, ox.Literal):
            raise _error(url, f"{value} is no entity that a link can join", "select two resources")
        try:
            triples.append(ox.Triple(_own(ox, subject, page), predicate, _own(ox, value, page)))
        except TypeError:
            shown = " ".join(str(x) for x in (subject, predicate, value))[:200]
            problem = f"{shown} is no statement"
            raise _error(
                url, problem, "select subject, predicate and object in this order"
            ) from None
    return ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES), len(rows), len(whole)


def _rows(ox: Any, data: bytes) -> tuple[int, list[list[Any]]]:
    """How many variables an answer has, and its rows."""
    answers = ox.parse_query_results(data, ox.QueryResultsFormat.JSON)
    rows = []
    try:
        if not isinstance(answers, ox.QuerySolutions):
            raise ValueError("the answer to another kind of query")
        variables = len(answers.variables)
        for row in answers:
            rows.append([row[i] for i in range(variables)])
    finally:
        del answers  # a traceback would keep it for another thread to free, which it forbids
    return variables, rows


def _own(ox: Any, term: Any, page: int) -> Any:
    """A term; a blank node by a name that no other page has."""
    return ox.BlankNode(f"p{page}{term.value}") if isinstance(term, ox.BlankNode) else term
