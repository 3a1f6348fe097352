"""Orders, cancels and signatures of the client at a real server."""

import time

import httpx
import pytest
from eth_account import Account

from clob import Side
from clob.client import (
    AsyncClient,
    Client,
    InvalidCallError,
    LimitOrder,
    RequestRejectedError,
    UnauthorisedError,
    WalletSigner,
)
from clob.errors import InvalidAmountError, PriceOutOfRangeError
from clob.signing import InvalidKeyError
from clob.units import tokens
from tests.client.conftest import SECRET
from tests.server.api.makers import operator_token
from tests.server.live import live_server

KEY = f"0x{0xBEEF:064x}"


@pytest.fixture
def client(live):
    with Client(live.url, signer=KEY) as made:
        yield made


@pytest.fixture
def unsigned(live):
    with Client(live.url, maker=f"0x{0xBEEF:040x}") as made:
        yield made


# ----- sizes and prices --------------------------------------------------------------------------


def test_size_is_wei_as_number_and_tokens_as_text(client, market):
    first = client.buy(market.id, market.yes, price=40, size="2.5")
    second = client.buy(market.id, "YES", price=40, size=tokens("2.5"))
    sizes = [client.order(each.order_id).size for each in (first, second)]
    assert sizes == [str(25 * 10**17)] * 2


@pytest.mark.parametrize("size", [2.5, True, None, "2,5", "1e3", "-1", ""])
def test_other_sizes_are_rejected_before_anything_is_sent(client, market, size):
    with pytest.raises(InvalidCallError, match="size must be an int in wei or a decimal str"):
        client.buy(market.id, market.yes, price=40, size=size)


def test_price_and_size_are_checked_before_the_request(client, market):
    with pytest.raises(PriceOutOfRangeError):
        client.buy(market.id, market.yes, price=100, size="1")
    with pytest.raises(InvalidAmountError):
        client.buy(market.id, market.yes, price=40, size=0)


def test_token_is_yes_no_or_an_id(client, market):
    client.buy(market.id, market.yes, price=40, size="1")
    with pytest.raises(InvalidCallError, match="has no NO token yet"):
        client.buy(market.id, "NO", price=40, size="1")
    client.buy(market.id, str(market.no), price=41, size="1")
    bought = client.buy(market.id, "no", price=42, size="1")
    assert client.order(bought.order_id).token_id == str(market.no)
    with pytest.raises(InvalidCallError, match="token must be YES, NO or a token id"):
        client.buy(market.id, "maybe", price=40, size="1")


def test_misspelled_option_and_side_are_rejected(client, market):
    with pytest.raises(InvalidCallError, match="no option postonly; its options are client_order"):
        client.buy(market.id, market.yes, price=40, size="1", postonly=True)
    with pytest.raises(InvalidCallError, match="side must be BUY or SELL; got 'buy'"):
        client.place(LimitOrder(market.id, market.yes, "buy", 40, "1"))


# ----- orders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["client", "unsigned"])
def test_options(request, name, market):
    client = request.getfixturevalue(name)
    client.buy(market.id, market.yes, price=40, size="1", client_order_id=f"{market.id}-bid")
    with pytest.raises(RequestRejectedError) as caught:
        client.sell(market.id, "YES", price=40, size="1", post_only=True)
    assert caught.value.code == "POST_ONLY_WOULD_CROSS"
    assert caught.value.hint in str(caught.value)
    ends = client.buy(market.id, "YES", price=30, size="1", expires_in_s=60)
    order = client.order(ends.order_id)
    assert order.time_in_force == "GTD"
    assert 0 <= order.expiration - client.server_time().now_s <= 60
    assert client.sell(market.id, "YES", price=90, size="1", time_in_force="IOC").status != "open"
    with pytest.raises(InvalidCallError, match="not both"):
        client.buy(market.id, "YES", price=30, size="1", expires_in_s=60, expiration_s=10**10)


def test_orders_with_and_without_signature_trade(client, unsigned, market):
    client.buy(market.id, market.yes, price=40, size="2")
    sold = unsigned.sell(market.id, "YES", price=40, size="1")
    assert (sold.status, sold.trades[0].price, sold.trades[0].size) == ("filled", 40, str(10**18))
    [fill] = client.fills(market=market.id)
    assert (fill.side, fill.role, fill.size) == (0, "resting", str(10**18))
    assert list(client.fills(market=market.id, after=fill.cursor)) == []
    assert client.account(market=market.id).positions[0].net_size == str(10**18)


def test_batch_returns_errors_in_place(client, market):
    client.buy(market.id, market.yes, price=40, size="1")
    placed, rejected = client.place_batch(
        [LimitOrder(market.id, "YES", "BUY", 41, "1"), LimitOrder(market.id, "YES", "BUY", 42, 100)]
    )
    assert placed.status == "open"
    assert (rejected.code, rejected.status) == ("AMOUNT_TOO_SMALL", 422)
    cancelled, missing = client.cancel_some([placed.order_id, "nothing"])
    assert cancelled.status == "cancelled"
    assert missing.code == "UNKNOWN_ORDER"


def test_replace_reduce_and_cancel(client, market):
    client.buy(market.id, market.yes, price=40, size="3", client_order_id=f"{market.id}-a")
    assert client.reduce(f"client:{market.id}-a", "2").remaining == str(tokens(2))
    options = {"client_order_id": f"{market.id}-b"}
    moved = client.replace(
        f"client:{market.id}-a", LimitOrder(market.id, "YES", Side.BUY, 41, "2", options)
    )
    assert (moved.status, moved.replaced.status) == ("open", "cancelled")
    assert client.cancel(f"client:{market.id}-b").status == "cancelled"
    with pytest.raises(RequestRejectedError) as caught:
        client.cancel(moved.order_id)
    assert caught.value.code == "ORDER_NOT_OPEN"
    assert caught.value.body["order"]["status"] == "cancelled"


def test_guard_rejects_a_change_of_an_order_with_another_remaining_size(client, market):
    placed = client.buy(market.id, market.yes, price=40, size="3")
    new = LimitOrder(market.id, "YES", Side.BUY, 41, "2")
    for change in (
        lambda: client.reduce(placed.order_id, "1", if_remaining="2"),
        lambda: client.replace(placed.order_id, new, if_remaining="2"),
    ):
        with pytest.raises(RequestRejectedError) as caught:
            change()
        assert caught.value.code == "REMAINING_CHANGED"
    reduced = client.reduce(placed.order_id, "2", if_remaining="3")
    assert reduced.remaining == str(tokens(2))
    assert client.replace(placed.order_id, new, if_remaining="2").replaced.status == "cancelled"


def test_tickers_of_all_markets_are_listed_page_by_page(client, market):
    client.buy(market.id, market.yes, price=40, size="1")
    listed = {each.market_id: each for each in client.tickers(limit=1)}
    assert set(listed) == {each.market_id for each in client.markets()}
    assert listed[market.id].yes.token_id == str(market.yes)


def test_cancel_all_passes_its_filters(client, market):
    client.buy(market.id, market.yes, price=40, size="1")
    client.sell(market.id, "YES", price=60, size="1")
    client.buy(market.id, market.no, price=10, size="1")
    assert client.cancel_all(market.id, token="NO").num_cancelled == 1
    assert client.cancel_all(market.id, side="SELL").num_cancelled == 1
    assert client.cancel_all(market.id).num_cancelled == 1
    client.buy(market.id, "YES", price=40, size="1")
    assert client.cancel_all().num_cancelled >= 1
    assert list(client.orders()) == []


def test_cancel_all_reaches_every_acknowledged_order(client, market):
    client.buy(market.id, market.yes, price=1, size="1")
    for _ in range(50):
        client.buy(market.id, "YES", price=40, size="1")
        assert client.cancel_all(market.id).num_cancelled >= 1
    assert list(client.orders(market=market.id)) == []


def test_cancel_all_reaches_orders_after_a_slow_reading_of_the_clock(live, market):
    def slow(response):
        if response.request.url.path == "/api/time":
            time.sleep(0.2)

    with (
        httpx.Client(event_hooks={"response": [slow]}) as http,
        Client(live.url, signer=f"0x{0xBEF:064x}", http=http) as client,
    ):
        client.sync_clock()
        client.buy(market.id, market.yes, price=40, size="1")
        assert client.cancel_all().num_cancelled == 1
        assert list(client.orders()) == []


def test_nonce_is_used_by_later_orders(live, market):
    with Client(live.url, signer=f"0x{0xBEE:064x}") as client:
        client.buy(market.id, market.yes, price=40, size="1")
        assert client.set_nonce(3).num_cancelled == 1
        assert client.buy(market.id, "YES", price=40, size="1").status == "open"


def test_validation_and_simulation(client, market):
    client.sell(market.id, market.yes, price=60, size="1")
    order = LimitOrder(market.id, "YES", "BUY", 60, "2", {"self_trade": "CANCEL_RESTING"})
    assert client.validate(order).valid
    assert client.simulate(order).account_checked
    wrong = client.validate(LimitOrder(market.id, "YES", "BUY", 60, 100))
    assert (wrong.valid, wrong.rejection["code"]) == (False, "AMOUNT_TOO_SMALL")


def test_heartbeat_arms_the_switch(unsigned):
    assert unsigned.heartbeat(10_000).changed
    assert not unsigned.heartbeat(10_000).changed
    assert unsigned.heartbeat(0).changed


# ----- time --------------------------------------------------------------------------------------


def test_signed_times_follow_the_server(tmp_path, market):
    with live_server(tmp_path / "data") as live, Client(live.url, signer=KEY) as client:
        bought = client.buy(market.id, market.yes, price=40, size="1")
        client.reduce(bought.order_id, "0.5")
        client.advance_clock(7_200_000)
        assert client.cancel(bought.order_id).status == "cancelled"
        ends = client.buy(market.id, "YES", price=40, size="1", expires_in_s=60)
        left_s = client.order(ends.order_id).expiration - client.server_time().now_s
        assert 0 <= left_s <= 60


# ----- signers -----------------------------------------------------------------------------------


def test_key_account_and_callback_are_the_same_wallet(live, market):
    account = Account.from_key(KEY)
    callback = WalletSigner(
        account.address, lambda digest: account.unsafe_sign_hash(digest).signature
    )
    in_hex = WalletSigner(
        account.address, lambda digest: account.unsafe_sign_hash(digest).signature.hex()
    )
    for signer in (KEY, bytes.fromhex(KEY[2:]), account, callback, in_hex):
        with Client(live.url, signer=signer) as client:
            assert client.maker == account.address
            assert client.buy(market.id, market.yes, price=40, size="1").status == "open"
            assert KEY[-8:] not in repr(client.signer)


async def test_callback_may_be_a_coroutine_function(live, market):
    account = Account.from_key(KEY)

    async def sign(digest):
        return account.unsafe_sign_hash(digest).signature

    async with AsyncClient(live.url, signer=WalletSigner(account.address, sign)) as client:
        assert (await client.buy(market.id, market.yes, price=40, size="1")).status == "open"


def test_callback_of_another_wallet_is_found_before_the_request(live, market):
    other = Account.from_key(f"0x{0xDEAD:064x}")
    signer = WalletSigner(
        Account.from_key(KEY).address, lambda digest: other.unsafe_sign_hash(digest).signature
    )
    with (
        Client(live.url, signer=signer) as client,
        pytest.raises(InvalidCallError, match=other.address),
    ):
        client.buy(market.id, market.yes, price=40, size="1")


@pytest.mark.parametrize("key", ["", "0x12", "0x" + "0" * 64, b"\1" * 31, "f" * 64])
def test_invalid_key_is_not_in_the_error(live, key):
    with pytest.raises(InvalidKeyError) as caught:
        Client(live.url, signer=key)
    assert not key or str(key) not in str(caught.value)


def test_delegate_signs_for_the_maker(live, market):
    maker, delegate = f"0x{0xAAA1:064x}", f"0x{0xAAA2:064x}"
    address = Account.from_key(maker).address
    with (
        Client(live.url, signer=maker) as owner,
        Client(live.url, signer=delegate, maker=address) as bot,
    ):
        owner.set_delegate(bot.signer.address, nonce=1)
        bought = bot.buy(market.id, market.yes, price=40, size="1")
        order = owner.order(bought.order_id)
        assert (order.maker, order.signer) == (address, bot.signer.address)
        assert bot.cancel(bought.order_id).status == "cancelled"


# ----- production --------------------------------------------------------------------------------


def test_production(production, market):
    with Client(production.url, token=operator_token(SECRET)) as operator:
        terms = {"yesTokenId": str(market.yes), "noTokenId": str(market.no)}
        operator.admin_create_market(market.id, terms)
        maker = Account.from_key(KEY).address
        key = operator.admin_create_key("bot", ["read", "trade", "cancel"], makers=[maker]).key
    with Client(production.url, signer=KEY) as signed:
        bought = signed.buy(market.id, "YES", price=40, size="1")
        assert signed.cancel(bought.order_id).status == "cancelled"
        signed.buy(market.id, "YES", price=40, size="1")
        assert signed.cancel_all(market.id).num_cancelled == 1
        with pytest.raises(UnauthorisedError) as caught:
            list(signed.orders())
        assert caught.value.code == "API_KEY_REQUIRED"
    with Client(production.url, maker=maker, api_key=key) as keyed:
        keyed.buy(market.id, "YES", price=40, size="1")
        assert len(list(keyed.orders())) == 1
        assert keyed.cancel_all().num_cancelled == 1
    with Client(production.url, maker=f"0x{1:040x}", api_key=key) as other:
        with pytest.raises(UnauthorisedError) as caught:
            other.buy(market.id, "YES", price=40, size="1")
        assert caught.value.code == "MAKER_NOT_ALLOWED"
        assert caught.value.status == 403
        assert caught.value.request_id
