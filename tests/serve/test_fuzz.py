"""Whatever a client sends, the application answers: with a status among those expected, without an exception, and
without a word of what it was sent or of where it runs."""

import base64
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.asking import BEARER, BINDING, BODY, CACHED, LEAKS, POD, TOKEN, VALID, WHOLE, Asked, check, in_json
from tvwrl.types import InputError

FEW = settings(max_examples=150)


@pytest.fixture(scope="module")
def asked():
    made = Asked()
    yield made
    made.close()


PATHS = st.sampled_from(sorted(VALID))
WORDS = ["Pod", "Nodes", "NodeNames", "items", "metadata", "name", "namespace", "uid", "spec", "containers", "requests",
         "resources", "cpu", "memory", "ownerReferences", "PodName", "PodNamespace", "Node", "overhead"]  # fmt: skip
KEYS = st.sampled_from(WORDS).flatmap(lambda word: st.sampled_from([word, word.lower(), word.upper()])) | st.text()
AWKWARD = [
    "", "a\0b", "a\nb", "../../etc/passwd", "a" * 300, "A", "\u202e", "\x7f", "é", "1e999", "-1", "9" * 70, "Ei", True,
    None, -1, 2**63, 2**64, -(2**63), 1e308, 5e-324, {}, [], [[]], {"": None}, [None], "${jndi:ldap://x}", "%s%n",
]  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(AWKWARD) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def places(content, path=()):
    """Paths to everything inside of a value."""
    for key in content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ():
        yield (*path, key)
        yield from places(content[key], (*path, key))


@st.composite
def mutated(draw):
    """A path, and a valid request in which one to three things are replaced, removed or renamed."""
    path = draw(PATHS)
    content = copy.deepcopy(draw(st.sampled_from(VALID[path])))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(places(content)) or [()])) or (None,)
        if last is None:
            break
        inner = content
        for key in way:
            inner = inner[key]
        action = draw(st.sampled_from(["replace", "remove", "rename"]))
        if action == "remove" or (isinstance(inner, list) and action == "rename"):
            del inner[last]
        elif action == "rename":
            inner[draw(KEYS)] = inner.pop(last)
        else:
            inner[last] = copy.deepcopy(draw(VALUES))
    return path, content


def test_valid_requests_are_answered(asked):
    for path, bodies in VALID.items():
        for content in bodies:
            check(asked, path, in_json(content), statuses=(200,))


@FEW
@given(path=PATHS, body=st.binary(max_size=300))
def test_any_bytes(asked, path, body):
    check(asked, path, body, statuses=(400,))


@FEW
@given(path=PATHS, content=VALUES)
def test_any_json(asked, path, content):
    check(asked, path, in_json(content))


@settings(max_examples=300)
@given(mutated())
def test_mutated_requests(asked, request_):
    path, content = request_
    check(asked, path, in_json(content))


@FEW
@given(mutated(), st.data())
def test_damaged_requests(asked, request_, data):
    """Bytes of the request in JSON are cut out, doubled or overwritten."""
    path, content = request_
    body = in_json(content)
    begin, end = sorted((data.draw(st.integers(0, len(body))), data.draw(st.integers(0, len(body)))))
    check(asked, path, body[:begin] + data.draw(st.binary(max_size=4) | st.just(body[begin:end] * 2)) + body[end:])


@FEW
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", ""]),
    path=st.text(max_size=30).map(lambda text: "/" + text)
    | st.sampled_from(["/filter", "/filter/", "//filter", "/FILTER", "/../metrics", "/metrics", "/healthz", "/readyz"]),
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"authorization", b"content-type", b"content-length", b"x-forwarded-for", b"host"]),
            st.binary(max_size=40)
            | st.sampled_from([BEARER[1], b"Basic " + base64.b64encode(b"any:" + TOKEN.encode()), b"Basic", b"Bearer"]),
        ),
        max_size=3,
    ),
)
def test_any_head(asked, method, path, headers):
    """Nothing but the probes is answered without the token."""
    status, answer = asked(path, in_json(CACHED), method=method, headers=headers)
    assert asked.errors() == []
    assert status in (200, 400, 401, 404, 405, 413)
    if not any(TOKEN.encode() in value or base64.b64encode(TOKEN.encode()) in value for _, value in headers):
        assert status == 401 or path in ("/healthz", "/readyz") or b"Basic" in dict(headers).get(b"authorization", b"")
    assert not [leak for leak in LEAKS if leak in answer.decode()]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("nothing", b""),
        ("a byte order mark", b"\xef\xbb\xbf" + in_json(CACHED)),
        ("UTF-16", json.dumps(CACHED).encode("utf-16")),
        ("NaN", b'{"Pod": NaN, "NodeNames": []}'),
        ("infinity", in_json(CACHED).replace(b'"250m"', b"Infinity")),
        ("lone surrogate", in_json(CACHED).replace(b"cart-1", b"\\ud800")),
        ("surrogate in a name of a node", in_json(CACHED).replace(b'"new"', b'"\\udfff"')),
        ("not UTF-8", in_json(CACHED).replace(b"cart-1", b"\xff\xfe")),
        ("overlong UTF-8", in_json(CACHED).replace(b"cart-1", b"\xc0\x80")),
        ("a control character", in_json(CACHED).replace(b"cart-1", b"a\\u0000b")),
        ("a line break", in_json(CACHED).replace(b"5f1c", b"a\\nb")),
        ("deep nesting", b"[" * 100_000),
        ("deep nesting of objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        ("half of it", in_json(CACHED)[:200]),
        ("two documents", in_json(CACHED) * 2),
        ("a million nodes", b'{"Pod": %s, "NodeNames": [%s"a"]}' % (in_json(POD), b'"a",' * 150_000)),
        ("an upper case node", in_json(CACHED).replace(b'"new"', b'"New"')),
        ("no pod", b'{"NodeNames": ["a"]}'),
        ("neither", in_json({"Pod": POD})),
        ("an exponent without end", in_json(CACHED).replace(b'"250m"', b"1" + b"0" * 500)),
    ],
)
def test_bad_bodies(asked, name, body):
    check(asked, "/filter", body, statuses=(400,))


@pytest.mark.parametrize(
    "body",
    [
        in_json({**CACHED, "Surprise": {"x": [1, 2]}}),
        in_json({name.lower(): value for name, value in CACHED.items()}),
        in_json({name.upper(): value for name, value in CACHED.items()}),
        in_json(CACHED)[:-1] + b', "Pod": ' + in_json(POD) + b"}",
        in_json({**CACHED, "NodeNames": []}),
        in_json({**CACHED, "NodeNames": ["a"] * 50}),
        in_json({**CACHED, "NodeNames": ["new", "newer"]}),
        in_json({**WHOLE, "Nodes": {"items": []}}),
        in_json({**WHOLE, "Nodes": {"items": None}}),
        in_json({**CACHED, "Pod": {**POD, "status": {"nested": json.loads("[" * 200 + "]" * 200)}}}),
    ],
)
@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
@pytest.mark.filterwarnings("error")  # it would stand between the lines of the log
def test_odd_bodies_are_answered(asked, path, body):
    check(asked, path, body, statuses=(200,))


@FEW
@given(sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=60))
def test_large_bodies_are_refused(asked, sizes):
    """Without a content-length, in parts."""
    status, _ = asked("/filter", *[b"x" * size for size in sizes])
    assert status == (413 if sum(sizes) > BODY else 400)


def test_declared_sizes(asked):
    for declared, status in ((b"1048577", 413), (b"99999999999999999999", 413), (b"-5", 200), (b"5x", 200), (b"", 200)):
        assert asked("/filter", in_json(CACHED), headers=[BEARER, (b"content-length", declared)])[0] == status


def test_a_client_that_goes_away_is_not_answered(asked):
    assert asked("/filter") is None
    assert asked.errors() == []


@pytest.mark.parametrize(
    "value",
    [
        b"", b"Bearer", b"Bearer ", b"bearer wrong", b"Basic", b"Basic !!!", b"Basic Og==", TOKEN.encode(), b"\xff",
        b"Digest " + TOKEN.encode(), b"Bearer " + b"x" * 60_000,
    ],
)  # fmt: skip
def test_wrong_tokens(asked, value):
    status, answer = asked("/filter", in_json(CACHED), headers=[(b"authorization", value)])
    assert status == 401
    assert TOKEN.encode() not in answer


def test_the_api_servers_refusal_is_passed_on_as_text():
    def refuse(binding):
        raise InputError("the API server refused the binding: HTTP 409 Conflict")

    asked = Asked(bind=refuse)
    assert asked("/bind", in_json(BINDING)) == (
        200,
        b'{"Error":"the API server refused the binding: HTTP 409 Conflict"}',
    )
    asked.close()
