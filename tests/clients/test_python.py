"""Orders signed by Python clients are valid here, and the clients accept our signatures.

The clients are configured with our chain and contract, and run once with their own domain name and
once with ours, for which a test replaces one method of the builder.
"""

import functools
import json
import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import Side
from clob.errors import InvalidFeeRateError
from clob.signing import (
    Domain,
    SignedOrder,
    SignerNotAuthorisedError,
    Verdict,
    explain,
    order_hash,
    sign,
    to_order,
    verify,
    verify_batch,
)
from clob.signing.errors import InvalidSignatureError
from tests.clients.inputs import (
    ADDRESSES,
    AMOY,
    DOMAINS,
    POLYMARKET,
    assert_valid,
    builder_inputs,
    user_orders,
)
from tests.signings import DOMAIN, EXCHANGE, KEYS, random_order

builders = pytest.importorskip("py_order_utils.builders", reason="py-order-utils is not installed")
from py_order_utils.model import Order, OrderData  # noqa: E402 - after the check that it is installed
from py_order_utils.signer import Signer  # noqa: E402

pytestmark = pytest.mark.usefixtures("backend")

COUNTS = pytest.mark.parametrize("count", [200, pytest.param(4_000, marks=pytest.mark.long)])


class NamedBuilder(builders.OrderBuilder):
    """The builder with another domain name, which is a constant of this one method."""

    def _get_domain_separator(self, chain_id, verifying_contract):
        from poly_eip712_structs import make_domain  # noqa: PLC0415 - a dependency of the builder

        return make_domain(
            name="clob", version="1", chainId=str(chain_id), verifyingContract=verifying_contract
        )


def builder(domain_name, key, salt=None):
    kind = builders.OrderBuilder if domain_name == "as shipped" else NamedBuilder
    return kind(EXCHANGE, 31337, Signer(key), salt_generator=lambda: salt)


def order_of(posted):
    """Read the posted order of a client, serialised as JSON."""
    return SignedOrder.from_json(json.loads(json.dumps(posted)))


# ----- py-order-utils ------------------------------------------------------------------------


@COUNTS
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_orders_of_py_order_utils_are_valid_and_keep_their_meaning(domain_name, count):
    domain, orders = DOMAINS[domain_name], []
    for key, drawn_order, (side, price, size) in builder_inputs(21, count):
        fields = {name: value for name, value in drawn_order.items() if name != "salt"}
        made = builder(domain_name, key, drawn_order["salt"]).build_signed_order(
            OrderData(**fields)
        )
        posted = made.dict()
        assert (type(posted["salt"]), posted["side"]) == (int, side.name)
        assert type(posted["expiration"]) is str
        order = order_of(posted)
        assert_valid(order, domain)
        parsed = to_order(order, id="a", settles=True)
        assert (parsed.side, parsed.price, parsed.size, parsed.maker) == (
            (side, price, size, ADDRESSES[key])
        )
        assert (parsed.nonce, parsed.expiration_s) == (
            int(drawn_order["nonce"]),
            int(drawn_order["expiration"]),
        )
        assert order_of(order.to_json()) == order
        orders.append(order)
    assert verify_batch(orders, domain) == bytes(count)
    assert {order.signature_type for order in orders} == {0, 1}


@COUNTS
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_py_order_utils_computes_the_same_hash_and_signature(domain_name, count):
    rng, domain = random.Random(22), DOMAINS[domain_name]
    for _ in range(count):
        key = rng.choice(KEYS)
        order = sign(random_order(rng, ADDRESSES[key]), domain, key, profile="ctf")
        fields = order.to_json()
        signature = fields.pop("signature")
        addresses = ("maker", "signer", "taker")
        client_order = Order(**{
            name: value if name in addresses else int(value) for name, value in fields.items()
        })  # fmt: skip
        made = builder(domain_name, key)
        assert made._create_struct_hash(client_order) == f"0x{order_hash(order, domain).hex()}"
        assert made.build_order_signature(client_order) == signature


def test_order_for_the_shipped_domain_is_rejected_and_explained():
    ((key, drawn_order, _),) = builder_inputs(23, 1)
    fields = {name: value for name, value in drawn_order.items() if name != "salt"}
    made = builder("as shipped", key, 1).build_signed_order(OrderData(**fields))
    order = order_of(made.dict())
    with pytest.raises(InvalidSignatureError) as caught:
        verify(order, DOMAIN)
    assert caught.value.verdict is Verdict.WRONG_SIGNER
    assert caught.value.expected == ADDRESSES[key]
    assert "Polymarket CTF Exchange" in explain(order, DOMAIN).text
    explanation = explain(order, [DOMAIN, POLYMARKET])
    assert (explanation.found, explanation.domain) == (True, POLYMARKET)
    assert '"Polymarket CTF Exchange"' in explanation.text


# ----- py-clob-client ------------------------------------------------------------------------


@pytest.fixture
def client_of(monkeypatch):
    """Return a factory of py-clob-client clients, with our contract in their table."""
    reason = "py-clob-client is not installed"
    module = pytest.importorskip("py_clob_client.order_builder.builder", reason=reason)
    client = pytest.importorskip("py_clob_client.client", reason=reason)
    types = pytest.importorskip("py_clob_client.clob_types", reason=reason)
    ours = types.ContractConfig(exchange=EXCHANGE, collateral=EXCHANGE, conditional_tokens=EXCHANGE)
    monkeypatch.setattr(module, "get_contract_config", lambda chain, neg_risk=False: ours)

    def make(key, domain_name, salt, decimals, **more):
        kind = builders.OrderBuilder if domain_name == "as shipped" else NamedBuilder
        salted = functools.partial(kind, salt_generator=lambda: salt)
        monkeypatch.setattr(module, "UtilsOrderBuilder", salted)
        if decimals == 18:
            monkeypatch.setattr(module, "to_token_decimals", lambda x: round(x * 10**6) * 10**12)
        return client.ClobClient("http://localhost", key=key, chain_id=31337, **more)

    return make


def signed_json(client, kind, token, user_order, **more):
    """Make a limit or market order with a client; return the JSON it would post."""
    from py_clob_client.clob_types import (  # noqa: PLC0415 - the fixture skips without it
        CreateOrderOptions,
        MarketOrderArgs,
        OrderArgs,
    )

    side, size, price, _ = user_order
    options = CreateOrderOptions(tick_size="0.01", neg_risk=False)
    if kind == "limit":
        args = OrderArgs(token, price, size, side.name, **more)
        return client.builder.create_order(args, options).dict()
    args = MarketOrderArgs(token, size, side.name, price, **more)
    return client.builder.create_market_order(args, options).dict()


@COUNTS
@pytest.mark.parametrize("decimals", [6, 18])
@pytest.mark.parametrize("kind", ["limit", "market"])
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_orders_of_py_clob_client_are_valid_and_keep_their_meaning(
    client_of, domain_name, kind, decimals, count
):
    rng, domain = random.Random(24), DOMAINS[domain_name]
    for user_order in user_orders(24, count // 4, kind):
        side, size, _, cents = user_order
        key, token = rng.choice(KEYS), str(rng.getrandbits(256))
        client = client_of(
            key, domain_name, rng.getrandbits(31), decimals, signature_type=rng.randrange(2)
        )
        posted = signed_json(client, kind, token, user_order, nonce=5, fee_rate_bps=100)
        order = order_of(posted)
        assert_valid(order, domain)
        parsed = to_order(order, id="a", settles=True)
        assert (parsed.side, parsed.price, parsed.token, parsed.maker) == (
            (side, cents, token, ADDRESSES[key])
        )
        assert (parsed.nonce, parsed.fee_rate_bps) == (5, 100)
        # The client rounds down to hundredths in doubles: 0.29 becomes 0.28.
        amount = int(size * 100) * 10 ** (decimals - 2)
        assert amount == (order.maker_amount if kind == "market" else parsed.size)


@pytest.mark.parametrize("signature_type", [0, 1, 2])
def test_proxies_are_consulted_for_signature_types_1_and_2_only(client_of, signature_type):
    proxy = f"0x{'ab' * 20}"
    client = client_of(KEYS[0], "as shipped", 1, 6, signature_type=signature_type, funder=proxy)
    order = order_of(signed_json(client, "limit", "1", (Side.BUY, 5.0, 0.5, 50)))
    assert (order.signer, order.maker.lower()) == (ADDRESSES[KEYS[0]], proxy)
    assert order.signature_type == signature_type
    calls = []

    def proxies(*arguments):
        calls.append(arguments)
        return True

    with pytest.raises(SignerNotAuthorisedError):
        verify(order, POLYMARKET, profile="ctf")
    if signature_type == 0:
        with pytest.raises(SignerNotAuthorisedError):
            verify(order, POLYMARKET, profile="ctf", proxies=proxies)
        verify(order, POLYMARKET, delegates=lambda maker, signer: maker == order.maker)
    else:
        verify(order, POLYMARKET, profile="ctf", proxies=proxies)
        assert calls == [(order.maker, order.signer, signature_type)]


def test_fee_rate_above_the_maximum_is_rejected(client_of):
    client = client_of(KEYS[0], "as shipped", 1, 6)
    order = order_of(signed_json(client, "limit", "1", (Side.BUY, 5.0, 0.5, 50), fee_rate_bps=1001))
    verify(order, POLYMARKET)
    with pytest.raises(InvalidFeeRateError) as caught:
        to_order(order, id="a")
    assert caught.value.path == "feeRateBps"


def test_order_for_the_published_exchange_is_explained_by_its_contract(client_of, monkeypatch):
    """The client was not configured with our contract."""
    from py_clob_client import config  # noqa: PLC0415 - the fixture skips without it
    from py_clob_client.order_builder import builder as module  # noqa: PLC0415

    made = client_of(KEYS[1], "as shipped", 1, 6)
    made.signer.chain_id = 137
    monkeypatch.setattr(module, "get_contract_config", config.get_contract_config)
    order = order_of(signed_json(made, "limit", "7", (Side.SELL, 10.0, 0.4, 40)))
    contract = "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E"
    verify(order, Domain("Polymarket CTF Exchange", "1", 137, contract))
    explanation = explain(order, DOMAIN)
    assert explanation.found
    assert f"chain 137, contract {contract}" in explanation.text


# ----- py-clob-client-v2 with orders of the first exchange -------------------------------------


@COUNTS
@pytest.mark.parametrize("kind", ["limit", "market"])
def test_orders_of_py_clob_client_v2_for_the_first_exchange_are_valid(kind, count, monkeypatch):
    reason = "py-clob-client-v2 is not installed"
    v2 = pytest.importorskip("py_clob_client_v2.order_builder.builder", reason=reason)
    from py_clob_client_v2.order_utils.model.order_data_v1 import (  # noqa: PLC0415
        order_to_json_v1,
    )
    from py_clob_client_v2.signer import Signer as SignerV2  # noqa: PLC0415

    exchange = v2.get_contract_config(80002)
    monkeypatch.setattr(exchange, "exchange", EXCHANGE)
    salted = functools.partial(v2.ExchangeOrderBuilderV1, generate_salt=lambda: "479249096354")
    monkeypatch.setattr(v2, "ExchangeOrderBuilderV1", salted)
    monkeypatch.setattr(v2, "get_contract_config", lambda chain: exchange)
    rng = random.Random(25)
    for side, size, price, _ in user_orders(25, count // 4, kind):
        key = rng.choice(KEYS)
        made = v2.OrderBuilder(SignerV2(key, 80002))
        options = v2.CreateOrderOptions(tick_size="0.01", neg_risk=False)
        if kind == "limit":
            args = v2.OrderArgsV1(token_id="9", price=price, size=size, side=side.name)
            signed = made.build_order(args, options, version=1)
        else:
            args = v2.MarketOrderArgsV1(token_id="9", amount=size, side=side.name, price=price)
            signed = made.build_market_order(args, options, version=1)
        order = order_of(order_to_json_v1(signed, "owner", "GTC")["order"])
        assert_valid(order, AMOY)
        assert (order.side, order.maker, order.token_id) == (side, ADDRESSES[key], 9)
