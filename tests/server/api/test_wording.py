"""Rejections speak of JSON: no text of any route or field has a word of Python."""

import json

import httpx
import pytest
import websockets.sync.client

from clob_server.api.problems import PROBLEMS
from clob_server.api.wording import in_json_terms
from clob_server.chain.eth.accounts import WALLETS
from tests.server.api.makers import ONE, Maker, operator_token, words_of_python
from tests.server.api.mistakes import SECRET, servers

WRONG = [
    None, True, False, 1.5, 1e19, -1, 0, 10**400, 2**256, "", "x", "None", "it's", 'a "quote"',
    "\u202e\x00", "ü" * 300, [], [None], {}, {"a": None, "b": [True]}, [[[[[[[[1]]]]]]]],
    "0x" + "0" * 40,
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    test, _ = servers(tmp_path_factory.mktemp("wording"))
    with test as server:
        yield server


@pytest.fixture(scope="module")
def client(live):
    headers = {"Authorization": f"Bearer {operator_token(SECRET)}"}
    with httpx.Client(base_url=live.url, headers=headers, timeout=60) as http:
        yield http


def bodies_of(document):
    """Yield method, path, schema and example of every route with a body."""
    components = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                media = operation["requestBody"]["content"]["application/json"]
                schema = media["schema"]
                if "$ref" in schema:
                    schema = components[schema["$ref"].rpartition("/")[2]]
                schema = schema.get("anyOf", [schema])[0]
                yield method.upper(), path, schema, media.get("example")


def value_of(name, schema):
    """Return a value that fits a field."""
    values = {
        "maker": Maker().address, "delegate": Maker().address, "user": Maker().address,
        "tokenId": "71", "marketId": "words", "yesTokenId": "71", "noTokenId": "72",
        "makerAmount": str(ONE // 2), "takerAmount": str(ONE), "amount": str(ONE),
        "conditionId": "0x" + "5c" * 32, "signature": "0x" + "11" * 65, "nonce": 1,
        "allowed": True, "name": "a", "scopes": ["read"], "outcome": "yes",
        "orders": [{}], "accept": True,
    }  # fmt: skip
    return values[name]


def check(answer, place):
    """Check the texts of an answer, and of the problems within it."""
    if answer.status_code < 400:
        content = answer.json()
        problems = [content.get("refusal")] if isinstance(content, dict) else []
        problems += content.get("results", []) if isinstance(content, dict) else []
        problems = [each for each in problems if each and "code" in each]
    else:
        problems = [answer.json()]
    for problem in problems:
        assert problem["code"] in PROBLEMS, place
        assert problem["code"] != "INTERNAL", place
        assert problem["errors"], (place, problem)
        for text in (problem["detail"], *(each["message"] for each in problem["errors"])):
            assert not words_of_python(text), (place, text)
            assert len(text) < 1_000, place
    return problems


def path_of(path):
    """Return a path with parameters that its route accepts."""
    values = {"marketId": "words", "orderId": "ord_1_nobody", "address": WALLETS[0].address}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def test_no_value_in_any_field_is_answered_in_words_of_python(client):
    document = client.get("/openapi.json").json()
    count = 0
    for method, path, schema, example in bodies_of(document):
        body = example or {name: value_of(name, schema) for name in schema.get("required", ())}
        for name in schema["properties"]:
            for value in WRONG:
                where = path_of(path)
                answer = client.request(method, where, json=body | {name: value})
                check(answer, (method, path, name, value))
                count += 1
    assert count > 2_000


def test_missing_field_has_one_code_on_every_route(client):
    document = client.get("/openapi.json").json()
    for method, path, schema, example in bodies_of(document):
        required = schema.get("required", ())
        body = example or {name: value_of(name, schema) for name in required}
        for name in required:
            if name not in body or (name == "signature" and path.endswith("/simulate")):
                continue
            where = path_of(path)
            without = {each: body[each] for each in body if each != name}
            problems = check(client.request(method, where, json=without), (method, path, name))
            assert [each["code"] for each in problems] == ["INVALID_FIELD"], (path, name)
            (error,) = problems[0]["errors"]
            assert error["path"] == name, (path, name)
            assert f"{name} is missing" in error["message"]


def test_no_parameter_is_answered_in_words_of_python(client):
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            if parameter["in"] == "query":
                for value in ("", "x", "None", "-1", "1.5", "'", "9" * 100, "%00"):
                    where = path.replace("{marketId}", "words")
                    answer = client.get(where, params={parameter["name"]: value})
                    if answer.status_code >= 400:
                        check(answer, (path, parameter["name"], value))


def test_no_message_is_answered_in_words_of_python(live):
    message = {"type": "subscribe", "channel": "user", "maker": Maker().address}
    names = ("type", "channel", "marketId", "tokenId", "maker", "resume", "extended", "id")
    for channel in ("orderbook", "user", "settlement"):  # 600 messages are the limit of each
        with websockets.sync.client.connect(live.ws_url) as socket:
            for name in names:
                for value in WRONG:
                    body = message | {"channel": channel, "extended": True} | {name: value}
                    for error in errors_after(socket, body):
                        assert not words_of_python(error["message"]), (body, error)


def errors_after(socket, body):
    """Send a message; return the errors that answer it."""
    socket.send(json.dumps(body))
    socket.send('{"type": "ping", "id": "end", "extended": true}')
    answers = iter(lambda: json.loads(socket.recv(timeout=60)), None)
    found = []
    for answer in answers:
        if answer.get("id") == "end":
            return found
        if answer["type"] == "error":
            found.append(answer)
    raise AssertionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("got 'it\\'s' and \"x 'y' None\"", 'got "it\'s" and "x \'y\' None"'),
        ("the maker's None; got True", "the maker's null; got true"),
        ("must be in mode Mode.OPEN; it is in Mode.CANCEL_ONLY", "in mode open; it is in cancelOn"),
        ("deadline_ms was 5", "deadlineMs was 5"),
        ("order ord_1_abc of client_id", "order ord_1_abc of clientOrderId"),
        ("/a/'b\n'/c is not", "/a/'b\n'/c is not"),
        ("/a/'\\x'/c is not", "/a/'\\x'/c is not"),
        ("/a/'\0'/c is not", "/a/'\0'/c is not"),
    ],
)
def test_words_of_the_engine_are_translated_outside_of_quotes(text, expected):
    assert expected in in_json_terms(text, "X")
