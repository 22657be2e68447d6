"""An endpoint, over a real store behind a real server on this machine, is read page by page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.sparql import ask_endpoint
from decentrl.errors import FormatWarning, InputError

ox = pytest.importorskip("pyoxigraph")
DATA = "".join(
    f"<http://e/{i}> <http://r/{i % 3}> <http://e/{(i * 7) % 50}> .\n" for i in range(50)
)
NAMES = '<http://e/1> <http://www.w3.org/2000/01/rdf-schema#label> "Eins \\"1\\""@de .\n'
LINKS = "".join(f"<http://e/{i}> <http://same> <http://f/{i}> .\n" for i in range(5))
ALL = "SELECT ?s ?p ?o WHERE { ?s ?p ?o } ORDER BY ?s ?p ?o"


class Server(ThreadingHTTPServer):
    """A SPARQL endpoint. What it was asked is in ``asked``; ``answer`` may say something else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = ox.Store()
        self.store.load((DATA + NAMES + LINKS).encode(), ox.RdfFormat.N_TRIPLES)
        self.asked: list[tuple[str, str]] = []
        self.answer: Callable[[str], tuple[int, bytes]] = self.results
        self.url = f"http://127.0.0.1:{self.server_port}/sparql"

    def handle_error(self, *_: object) -> None:
        """A client that did not wait for an answer is no news."""

    def results(self, query: str) -> tuple[int, bytes]:
        try:
            return 200, self.store.query(query).serialize(format=ox.QueryResultsFormat.JSON)
        except SyntaxError as error:
            return 400, f"<html>Parse  error:\n{error}</html>".encode()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (query,) = parse_qs(body)["query"]
        self.server.asked.append((query, self.headers["Accept"]))
        code, answer = self.server.answer(query)
        self.send_response(code)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(server: Server, query: str = ALL, **options: Any) -> str:
    return b"".join(ask_endpoint(server.url, query, **options)).decode()


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("page", [1, 7, 55, 56, 57, 10_000])
def test_all_pages_together_are_the_graph(server: Server, page: int) -> None:
    if page == 1:  # fewer requests
        server.store.update("DELETE WHERE { ?s <http://r/0> ?o }")
        server.store.update("DELETE WHERE { ?s <http://r/1> ?o }")
    expected = server.store.dump(format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    seen: list[int] = []
    assert lines(ask(server, page=page, progress=seen.append)) == lines(expected.decode())
    assert seen[-1] == len(server.store)
    assert server.asked[0] == (f"{ALL}\nLIMIT {page} OFFSET 0", "application/sparql-results+json")
    assert len(server.asked) == -(-len(server.store) // page) + 1


def test_what_is_written_is_read_as_a_graph_with_names_and_links(
    server: Server, tmp_path: Path
) -> None:
    triples, links = tmp_path / "g.nt", tmp_path / "l.nt"
    triples.write_text(ask(server), "utf-8")
    links.write_text(ask(server, "SELECT ?a ?b { ?a <http://same> ?b } ORDER BY ?a"), "utf-8")
    other = [(f"http://f/{i}", "r", f"http://f/{(i + 1) % 5}") for i in range(5)]
    task = AlignmentTask.read(KnowledgeGraph.read(triples), other, links)
    assert len(task.train) == 5
    one = task.left.entities.ids(["http://e/1"])
    assert task.left.names.shown(one) == ['Eins "1"']


def test_a_server_that_gives_fewer_rows_than_asked_for_is_asked_on(server: Server) -> None:
    """Public endpoints have a limit of their own."""

    def capped(query: str) -> tuple[int, bytes]:
        return server.results(query.replace("LIMIT 1000", "LIMIT 20"))

    server.answer = capped
    assert len(lines(ask(server, page=1000))) == len(server.store)
    assert len(server.asked) == 4


def test_a_server_that_ignores_limits(server: Server) -> None:
    server.answer = lambda query: server.results(query.split("LIMIT")[0])
    assert len(lines(ask(server, page=20))) == len(server.store)  # all came at once
    server.answer = lambda query: server.results(query.split("OFFSET")[0])
    with pytest.raises(InputError, match="once more; give a larger --page: this server ignores"):
        ask(server, page=20)


def test_pages_without_an_order_are_noted(server: Server) -> None:
    plain = "SELECT ?s ?p ?o { ?s ?p ?o } # ORDER BY ?s"
    with pytest.warns(FormatWarning, match=r"3 pages without ORDER BY, .* rows may be missing"):
        ask(server, plain, page=20)
    ask(server, plain)  # one page needs none


def test_unbound_variables_are_left_out_and_counted(server: Server) -> None:
    query = (
        "SELECT ?s (<http://r/x> AS ?p) ?o { ?s <http://r/0> ?x OPTIONAL { ?s <http://same> ?o } }"
    )
    with pytest.warns(FormatWarning, match="15 of 17 rows left out: a variable has no value"):
        assert len(lines(ask(server, query))) == 2
    nothing = query.replace("<http://same>", "<http://no>")
    with pytest.raises(InputError, match="no row has a value for each variable"):
        ask(server, nothing)


def test_blank_nodes_of_two_pages_are_two(server: Server) -> None:
    def same_name(query: str) -> tuple[int, bytes]:
        row = (
            '{"s": {"type": "bnode", "value": "b0"}, "p": {"type": "uri", "value": "http://r"}, '
            '"o": {"type": "uri", "value": "http://o"}}'
        )
        rows = "" if "OFFSET 2" in query else row + " " * int(query.endswith("1"))
        bindings = f'"results": {{"bindings": [{rows}]}}'
        return 200, f'{{"head": {{"vars": ["s", "p", "o"]}}, {bindings}}}'.encode()

    server.answer = same_name
    assert lines(ask(server, page=1)) == [
        "_:p0b0 <http://r> <http://o> .",
        "_:p1b0 <http://r> <http://o> .",
    ]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT ?s { ?s ?p ?o }", "the query has 1 variable"),
        ("SELECT ?s ?o { ?s <http://www.w3.org/2000/01/rdf-schema#label> ?o }", "is no entity"),
        ("SELECT ?o ?p ?s { ?s ?p ?o } ORDER BY ?p", "is no statement; select subject"),
        ("SELECT ?s ?p ?o { ?s ?p }", r"answered 400 Bad Request \(Parse error: "),
        ("SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 5 # five", "the query ends in LIMIT; remove it"),
        ("PREFIX select: <http://select> CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", "no SELECT query"),
        ("BASE <http://x#y> prefix a:<http://a> select ?s { }", "1 variable"),
        ("# SELECT\nASK { ?s ?p ?o }", r"no SELECT query; write SELECT \?subject"),
        ("", "no SELECT query"),
    ],
)
def test_a_query_that_cannot_be_used(server: Server, query: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        ask(server, query)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, b"<html>Welcome</html>"), "no SPARQL result in JSON .*give the address of an endp"),
        ((200, b'{"head": {}, "boolean": true}'), "no SPARQL result in JSON"),
        ((200, b'{"head": {"vars": ["s"]}, "results": {"bindings": [{'), "no SPARQL result"),
        ((500, b"\x1b[2J" + b"x" * 5000), "answered 500 Internal Server Error"),
        ((302, b""), "answered 302|no answer"),
    ],
)
def test_an_answer_that_cannot_be_used(
    server: Server, answer: tuple[int, bytes], says: str
) -> None:
    server.answer = lambda _: answer
    with pytest.raises(InputError, match=says) as error:
        ask(server)
    assert len(str(error.value)) < 500


def test_an_answer_may_not_fill_the_memory(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECENTRL_MEMORY", str(8000 / 2**30))
    with pytest.raises(InputError, match=rf"{server.url}: more than the 0 MiB"):
        ask(server)


def test_a_slow_server_is_left_after_the_time(server: Server) -> None:
    server.answer = lambda _: (time.sleep(1), (200, b"{}"))[1]
    started = time.monotonic()
    with pytest.raises(InputError, match=r"not done after 0.2 s; ask for less, or give more"):
        ask(server, seconds=0.2)
    assert time.monotonic() - started < 0.9


def test_what_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no web address"):
        list(ask_endpoint("file:///etc/passwd", ALL))
    with pytest.raises(InputError, match=r"no answer .*check the address"):
        list(ask_endpoint("http://127.0.0.1:1/", ALL))


def test_the_command(server: Server, decentrl: Any, tmp_path: Path) -> None:
    query, output = tmp_path / "all.rq", tmp_path / "all.nt"
    query.write_text(ALL + "\n")
    done = decentrl("data", "sparql", server.url, "--query", query, "-o", output, "--page", "30")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{output}: 56 statements\n"
    assert decentrl("data", "info", output).code == 0
    query.write_text("SELECT ?s { }")
    output.write_text("mine")
    for arguments, says in (
        ((query, "-o", output), "error: http"),
        ((query, "-o", tmp_path / "x.tsv"), "give a name that ends in .nt"),
        ((query, "-o", tmp_path / "no/x.nt"), "make it first"),
        ((tmp_path / "none.rq", "-o", output), "there is no such file"),
    ):
        done = decentrl("data", "sparql", server.url, "--query", *arguments)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
        assert len(done.err.splitlines()) == 1
    assert output.read_text() == "mine"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["all.nt", "all.rq"]
