"""Attacks on the service: each is refused with a clear answer, and the process goes on."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from benchmarks.serving import Service, served
from tests.service.conftest import AUTHORISED, TOKEN, client_of

LIMITS = {
    "token": TOKEN,
    "header_seconds": 1.5,
    "body_seconds": 1.5,
    "connections": 40,
    "waiting": 5,
}
JSON = {"Content-Type": "application/json"}
HERE = "Host: 127.0.0.1\r\n"
BEARER = f"Authorization: {AUTHORISED['Authorization']}\r\n"
TYPE = "Content-Type: application/json\r\n"
ADD = json.dumps({"triples": [["a", "monnaie", "b"]], "side": "left"})
CLOSED = 0
"""The status of a connection that was closed without an answer."""


@pytest.fixture(scope="module")
def attacked(world_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that may be changed with a token, and waits for slow clients a moment only."""
    run = tmp_path_factory.mktemp("attacked") / "world"
    shutil.copytree(world_run, run)
    program = (str(Path(__file__).with_name("serve_with_limits.py")), json.dumps(LIMITS))
    with served(run, program=program) as service:
        yield service


@pytest.fixture(autouse=True)
def alive(attacked: Service) -> Iterator[None]:
    """After each attack the process answers, and nothing was added."""
    yield
    with client_of(attacked) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/v1/additions").json() == {"additions": []}
    assert attacked.process.poll() is None


def sent(service: Service, *parts: str | bytes, wait: float = 10) -> tuple[int, bytes]:
    """The status and the text of what is answered to raw bytes."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=wait) as connection:
        with suppress(OSError):
            for part in parts:
                connection.sendall(part.encode() if isinstance(part, str) else part)
        found = b""
        with suppress(OSError):
            while piece := connection.recv(65536):
                found += piece
                head, _, body = found.partition(b"\r\n\r\n")
                if f"content-length: {len(body)}".encode() in head.lower():
                    break
    return int(found.split()[1]) if found else CLOSED, found


def request(line: str, *headers: str, body: str = "") -> str:
    length = f"Content-Length: {len(body.encode())}\r\n" if body else ""
    return f"{line} HTTP/1.1\r\n{HERE}{''.join(headers)}{length}\r\n{body}"


POST = "POST /v1/additions"
RAW: dict[str, tuple[str | bytes, tuple[int, ...]]] = {
    # paths
    "a path up": (request("GET /../../../etc/passwd"), (404,)),
    "a path up, encoded": (request("GET /%2e%2e/%2e%2e/etc/passwd"), (404,)),
    "a path up, encoded twice": (request("GET /%252e%252e/etc/passwd"), (404,)),
    "a path up with backslashes": (request("GET /..%5c..%5cetc%5cpasswd"), (404,)),
    "a path up behind a file": (request("GET /index.html/../../__init__.py"), (404,)),
    "a file of the package": (request("GET /app.py"), (404,)),
    "an absolute path": (request("GET //etc/passwd"), (404,)),
    "a path up in a run's name": (request("GET /v1/runs/..%2f..%2f/run"), (404,)),
    "a NUL in a path": (request("GET /index.html%00.js"), (404,)),
    "a NUL in a label": (request("GET /v1/entity?id=%00"), (404,)),
    "bytes that are no UTF-8": (request("GET /v1/entity?id=%ff%fe"), (404,)),
    "half a surrogate": (request("GET /v1/entity?id=%ed%a0%80"), (404,)),
    "a very long path": (request(f"GET /{'x' * 15_000}"), (404,)),
    "a path longer than headers may be": (request(f"GET /{'x' * 200_000}"), (400, CLOSED)),
    # headers
    "a flood of headers": (request("GET /health", *(f"X-{i}: y\r\n" for i in range(5000))),
                           (400, 431, CLOSED)),
    "a huge header": (request("GET /health", f"X: {'y' * 10**6}\r\n"), (400, CLOSED)),
    "no host": ("GET /health HTTP/1.1\r\n\r\n", (400, 421)),
    "two hosts": (f"GET /health HTTP/1.1\r\n{HERE}Host: evil.example\r\n\r\n", (400, 421)),
    "another host": ("GET /v1/run HTTP/1.1\r\nHost: evil.example\r\n\r\n", (421,)),
    "a host that begins like ours": ("GET /v1/run HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
                                     (421,)),
    "a user in the host": ("GET /v1/run HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n", (421,)),
    "a line feed in a header": (request("GET /health", "X: y\nEvil: z\r\n"), (200, 400)),
    "both lengths": (request(POST, "Transfer-Encoding: chunked\r\n", TYPE, BEARER, body=ADD),
                     (400, CLOSED)),
    "two lengths": (request(POST, TYPE, BEARER, "Content-Length: 5\r\n", body=ADD), (400, CLOSED)),
    "a negative length": (request(POST, TYPE, BEARER, "Content-Length: -1\r\n"), (400, CLOSED)),
    "a length that is no number": (request(POST, TYPE, "Content-Length: x\r\n"), (400, CLOSED)),
    "a length with 5,000 digits": (request(POST, TYPE, f"Content-Length: {'9' * 5000}\r\n"),
                                   (400, 413, CLOSED)),
    "a bad chunk": (request(POST, TYPE, BEARER, "Transfer-Encoding: chunked\r\n") + "zz\r\n",
                    (400, CLOSED)),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00" + b"\x00" * 100 + b"\r\n\r\n", (400, CLOSED)),
    "an unknown version": ("GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", (400, 505, CLOSED)),
    "an upgrade": (request("GET /health", "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
                   (200, 400, 426)),
    "a proxy's request": ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                          (421,)),
    "a tunnel": ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                 (400, 405, 421)),
    "a strange method": (request("BREW /v1/run"), (405,)),
    "TRACE": (request("TRACE /v1/run"), (405,)),
    # who may change what
    "no token": (request(POST, TYPE, body=ADD), (401,)),
    "a wrong token": (request(POST, TYPE, "Authorization: Bearer x\r\n", body=ADD), (401,)),
    "a token of bytes": (request(POST, TYPE, body=ADD).encode().replace(
        TYPE.encode(), TYPE.encode() + b"Authorization: Bearer \xff\xfe\r\n"), (400, 401)),
    "the token as a parameter": (request(f"{POST}?token={TOKEN}", TYPE, body=ADD), (401,)),
    "another method by a header": (request("GET /v1/additions/last", BEARER,
                                           "X-HTTP-Method-Override: DELETE\r\n"), (404, 405)),
    "another site's page": (request(POST, TYPE, BEARER, "Origin: https://evil.example\r\n",
                                    body=ADD), (403,)),
    "a page without an origin": (request(POST, TYPE, BEARER, "Origin: null\r\n", body=ADD), (403,)),
    "a page of another port": (request(POST, TYPE, BEARER, "Origin: http://127.0.0.1:1\r\n",
                                       body=ADD), (403,)),
    "another site, as browsers say": (request(POST, TYPE, BEARER, "Sec-Fetch-Site: cross-site\r\n",
                                              body=ADD), (403,)),
    "a form of another site": (request(POST, "Content-Type: text/plain\r\n", BEARER, body=ADD),
                               (415,)),
    "leave asked before a change": (request("OPTIONS /v1/additions", "Origin: https://evil.example"
                                            "\r\nAccess-Control-Request-Method: POST\r\n"), (405,)),
    # bodies
    "100 MB, as announced": (request(POST, TYPE, BEARER, "Content-Length: 100000000\r\n"), (413,)),
    "a compressed body": (request(POST, TYPE, BEARER, "Content-Encoding: gzip\r\n", body="x"),
                          (415,)),
    "no JSON": (request(POST, TYPE, BEARER, body="{"), (422,)),
    "JSON that is no UTF-8": (request(POST, TYPE, BEARER, "Content-Length: 4\r\n").encode()
                              + b'"\xff\xfe"', (422,)),
    "JSON 100,000 levels deep": (request(POST, TYPE, BEARER, body="[" * 100_000), (422,)),
    "objects 50,000 levels deep": (request(POST, TYPE, BEARER, body='{"a":' * 50_000), (422,)),
    "deep JSON where triples are": (request(POST, TYPE, BEARER, body='{"triples":' + "[" * 900
                                            + "]" * 900 + "}"), (422,)),
    "a number with 100,000 digits": (request(POST, TYPE, BEARER, body='{"side":' + "9" * 10**5
                                             + "}"), (422,)),
    "NaN": (request(POST, TYPE, BEARER, body='{"triples": NaN}'), (422,)),
    "a key a hundred thousand times": (request(POST, TYPE, BEARER, body="{" + '"a":1,' * 100_000
                                               + '"b":1}'), (422,)),
    "half a surrogate in JSON": (request(POST, TYPE, BEARER, body=r'{"triples": [["\ud800", "x", '
                                         r'"y"]], "side": "left"}'), (422,)),
    # questions
    "10,001 entities": (request("POST /v1/matches", TYPE, body=json.dumps(
        {"entities": ["x"] * 10_001})), (422,)),
    "an entity of a megabyte": (request("POST /v1/matches", TYPE, body=json.dumps(
        {"entities": ["x" * 10**6]})), (422,)),
    "a side that is code": (request("GET /v1/matches?id=x&side=__class__"), (422,)),
    "a regular expression": (request("GET /v1/entities?q=(a%2B)%2B$"), (200,)),
    "markup": (request("GET /v1/entity?id=%3Cscript%3Ealert(1)%3C/script%3E"), (404,)),
    "a header in a parameter": (request("GET /v1/entity?id=x%0d%0aSet-Cookie:%20a=b"), (404,)),
    # reconciliation, where pages of other sites may ask
    "a reconciliation of no JSON": (request("GET /reconcile?queries=%7B"), (422,)),
    "a deep reconciliation": (request("POST /reconcile", body="queries=" + "[" * 100_000), (422,)),
    "a thousand queries": (request("POST /reconcile", body="queries=" + json.dumps(
        {str(i): {"query": "x"} for i in range(1000)})), (413,)),
    "a thousand fields": (request("POST /reconcile", body="&".join(["a=b"] * 1000)), (422,)),
    "a callback": (request("GET /reconcile?callback=alert"), (200,)),
    "a flyout of code": (request("GET /reconcile/flyout/__class__?id=x"), (404,)),
    "additions beside reconciliation": (request("POST /reconcile/additions", TYPE, body=ADD),
                                        (404, 405)),
}  # fmt: skip


def test_there_are_many() -> None:
    assert len(RAW) >= 40


@pytest.mark.parametrize("name", RAW)
def test_raw_attacks(attacked: Service, name: str) -> None:
    what, expected = RAW[name]
    started = time.monotonic()
    status, found = sent(attacked, what)
    assert status in expected, found[:500]
    assert time.monotonic() - started < 8
    for word in (b"Traceback", b"root:", b"site-packages"):
        assert word not in found
    head = found.partition(b"\r\n\r\n")[0].lower()
    assert b"set-cookie" not in head
    assert b"text/html" not in head
    if status >= 401 and status != 405:
        assert json.loads(found.partition(b"\r\n\r\n")[2])["error"]


def test_a_body_without_an_end(attacked: Service) -> None:
    """100 MB in chunks: refused once there is too much, whatever more is sent."""
    head = request(POST, TYPE, BEARER, "Transfer-Encoding: chunked\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    before = attacked.memory
    status, _ = sent(attacked, head, *[chunk] * 1600)
    assert status in (413, CLOSED)
    assert attacked.memory - before < 64 * 2**20


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("GET /health HT", CLOSED),
        ("", CLOSED),
        (f"GET /health HTTP/1.1\r\n{HERE}X: ", CLOSED),
        (request(POST, TYPE, BEARER, "Content-Length: 100\r\n") + "{", 408),
    ],
)
def test_slow_clients(attacked: Service, first: str, status: int) -> None:
    started = time.monotonic()
    assert sent(attacked, first)[0] == status
    assert time.monotonic() - started < 9


def test_a_client_that_sends_a_byte_now_and_then(attacked: Service) -> None:
    started = time.monotonic()
    address = "127.0.0.1", attacked.port
    with socket.create_connection(address, timeout=10) as connection, suppress(OSError):
        for byte in b"GET /health HTTP/1.1\r\nX: " + b"y" * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)
        while connection.recv(100):
            pass
    assert time.monotonic() - started < 9


def test_many_open_connections(attacked: Service) -> None:
    """More connections than there may be: some are refused, and all end."""
    connections = []
    for _ in range(60):
        with suppress(OSError):
            connections.append(socket.create_connection(("127.0.0.1", attacked.port), timeout=5))
    time.sleep(2.5)
    with client_of(attacked) as client:
        assert client.get("/health").status_code == 200
    for connection in connections:
        connection.close()


def test_wrong_tokens_take_the_same_time(attacked: Service) -> None:
    """The comparison is not ended by the first wrong letter (`hmac.compare_digest`)."""
    import inspect

    from decentrl.service import guard

    assert "compare_digest" in inspect.getsource(guard.check_token)
    with client_of(attacked) as client:
        for given in ("x", TOKEN[:-1], TOKEN + "x", "x" * len(TOKEN), "é" * 50):
            headers = {"Authorization": f"Bearer {given}".encode()}
            answer = client.delete("/v1/additions/last", headers=headers)
            assert answer.status_code in (400, 401)


def test_only_reconciliation_is_for_other_sites(attacked: Service) -> None:
    origin = {"Origin": "https://openrefine.example"}
    with client_of(attacked) as client:
        for path in ("/v1/run", "/", "/v1/additions", "/metrics", "/health"):
            answer = client.get(path, headers=origin)
            assert "access-control-allow-origin" not in answer.headers
        answer = client.get("/reconcile", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
        form = {"queries": '{"q0": {"query": "x"}}'}
        assert client.post("/reconcile", data=form, headers=origin).status_code == 200


def test_hostile_labels_stay_text(attacked: Service) -> None:
    """What a graph says is never markup; the preview escapes it, JSON is not sniffed."""
    with client_of(attacked) as client:
        for answer in (
            client.get("/v1/entity", params={"id": "<img src=x onerror=alert(1)>"}),
            client.get("/reconcile/preview", params={"id": "<img src=x onerror=alert(1)>"}),
            client.get("/reconcile/flyout/type", params={"id": "<b>"}),
        ):
            assert answer.headers["content-type"].startswith("application/json")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_too_many_questions_at_once(attacked: Service) -> None:
    """More than may wait: some are told to come back, none is lost, and later all is well."""
    from concurrent.futures import ThreadPoolExecutor

    def ask(_: int) -> int:
        with suppress(httpx.HTTPError), client_of(attacked) as client:
            answer = client.get("/v1/neighbours", params={"id": "anglais", "top": 100})
            if answer.status_code == 503:
                assert answer.headers["retry-after"]
            return answer.status_code
        return CLOSED

    with ThreadPoolExecutor(60) as pool:
        statuses = set(pool.map(ask, range(60)))
    assert statuses <= {200, 503, CLOSED}
    assert 200 in statuses
