"""Escrow markets on real nodes: deposits, orders, trades, withdrawals, stops, reorganisations."""

import re
import time
from contextlib import ExitStack

import pytest

from clob.client import Client
from clob.client.errors import ResponseError
from tests.chain.chain_server import wait_until
from tests.chain.escrow_server import EscrowServer
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.proxy import Drop, proxy_to
from tests.chain.settling_server import BUY, SELL, SETTINGS, accounts_of
from tests.chain.test_server_reorganisations import block_of, remove_from, until
from tests.chain.wallets import UNIT
from tests.server.api.makers import good, problem
from tests.server.live import live_server

pytestmark = pytest.mark.long
FINAL_BLOCKS = 6
LATE_MS = 151_000
SEEN_S = 2.5


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("escrow")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        proxy_to(node) as proxy,
        live_server(folder / "data", chain=proxy.url, **SETTINGS) as live,
    ):
        server = EscrowServer(live, node.url).set_up(complementary=True)
        server.proxy = proxy
        yield server


def escrows(server, user):
    """Return the balances in escrow: collateral, YES, NO."""
    return [server.escrow_of(user, asset)[0] for asset in (0, *server.tokens())]


def state_of(server, order_id):
    return server.http.get(f"/api/orders/{order_id}").json()["status"]


def until_stalled(server, is_stalled):
    wait_until(lambda: (server.market()["stalled"] is not None) is is_stalled)


# ----- trades ----------------------------------------------------------------------------------


def test_trade_moves_balances_within_the_contract(server):
    ada, bob = server.depositor(), server.depositor()
    server.trade(bob, ada, price=40)
    assert server.until_settled().difference == 0
    assert escrows(server, ada) == [5 * UNIT + UNIT * 2 // 5, 4 * UNIT, 5 * UNIT]
    assert escrows(server, bob) == [5 * UNIT - UNIT * 2 // 5, 6 * UNIT, 5 * UNIT]
    assert server.ledger.collateral(ada.address) == server.ledger.collateral(bob.address) == 0
    server.until_available(bob, 6 * UNIT, str(server.tokens()[0]))


def test_mint_and_merge_trades_settle(server):
    yes, no = server.tokens()
    ada, bob = server.depositor(tokens=False), server.depositor(tokens=False)
    server.placed(ada, BUY, 30, token=yes)
    server.placed(bob, BUY, 70, token=no)
    server.until_settled()
    assert escrows(server, ada) == [5 * UNIT - 30 * UNIT // 100, UNIT, 0]
    assert escrows(server, bob) == [5 * UNIT - 70 * UNIT // 100, 0, UNIT]
    server.placed(ada, SELL, 50, token=yes)
    server.placed(bob, SELL, 50, token=no)
    server.until_settled()
    assert escrows(server, ada) == [5 * UNIT + 20 * UNIT // 100, 0, 0]
    assert server.until_settled().difference == 0


def test_wallet_and_its_approval_cover_no_order(server):
    ada = server.depositor(deposits=False)
    answer = server.place(ada, BUY, 50)
    body = problem(answer, "INSUFFICIENT_BALANCE")
    assert f"deposit({ada.address}, 0, {UNIT // 2})" in body["detail"]


def test_maker_that_leaves_after_a_match_undoes_no_trade(server):
    """In a wallet market each of these trades fails."""
    pairs = [(server.depositor(1), server.depositor(1)) for _ in range(4)]
    exchange = server.contracts.exchange
    tokens = server.contracts.conditional_tokens
    with server.proxy.inject(Drop("eth_sendRawTransaction")):  # each leaves before it settles
        for buyer, seller in pairs:
            server.placed(seller, SELL, 50)
            server.placed(buyer, BUY, 50)
            server.request(buyer, 0, UNIT)
            server.request(seller, server.tokens()[0], UNIT)
            seller.call(exchange, "incrementNonce()")
            seller.call(tokens, "setApprovalForAll(address,bool)", exchange, False)
    status = server.until_settled()
    assert [each for each in status.failures if each.market_id == "rain"] == []
    for buyer, seller in pairs:
        assert escrows(server, buyer)[1] == 2 * UNIT
        assert escrows(server, seller)[0] == UNIT + UNIT // 2
    assert server.until_settled().difference == 0


def test_signed_order_trades_the_escrow_of_a_registered_wallet(server):
    ada, safe, seller = server.depositor(), server.depositor(), server.depositor()
    body = {**server.signed(ada, BUY, 50), "smartWallet": safe.address}
    problem(server.http.post("/api/orders", json=body), "WALLET_NOT_ALLOWED", "smartWallet")
    safe.call(server.contracts.exchange, "setPayer(address,bool)", ada.address, True)
    wait_until(lambda: server.http.post("/api/orders", json=body).status_code == 200)
    server.placed(seller, SELL, 50)
    server.until_settled()
    assert escrows(server, safe)[0] == 5 * UNIT - UNIT // 2
    assert escrows(server, ada) == [5 * UNIT, 6 * UNIT, 5 * UNIT]
    assert server.until_settled().difference == 0


def test_trades_of_wallet_markets_settle_beside(server):
    server.open_settling("snow")
    ada, bob = server.depositor(), server.depositor()
    source, market = server.source, server.market("snow")
    server.convert("split", source, market, UNIT)
    yes = int(market["yesTokenId"])
    source.send_token(ada.address, yes, UNIT)
    source.send_collateral(bob.address, UNIT)
    for _ in range(2):
        server.trade(bob, ada)

    def place(user, side):
        body = {**server.signed(user, side, 50, token=yes), "marketId": "snow"}
        answer = server.http.post("/api/orders", json=body)
        return answer.status_code == 200

    wait_until(lambda: place(ada, SELL))
    wait_until(lambda: place(bob, BUY))
    assert server.until_settled().difference == 0
    assert server.ledger.token(bob.address, yes) == UNIT
    assert server.ledger.collateral(ada.address) == UNIT // 2
    assert escrows(server, bob)[1] == 7 * UNIT


def test_fees_go_to_the_escrow_of_the_fee_wallet(server):
    server.open_settling("fees", custody="escrow", incomingFeeRateBps=100)
    ada, bob = server.depositor(2, tokens=False), server.depositor(2, tokens=False)
    market = server.market("fees")
    server.convert("split", server.source, market, UNIT)
    yes = int(market["yesTokenId"])
    server.source.send_token(ada.address, yes, UNIT)
    server.deposit(ada, yes, UNIT)

    def place(user, side, price):
        body = {**server.signed(user, side, price, token=yes, fee_rate_bps=100)}
        return server.http.post("/api/orders", json={**body, "marketId": "fees"}).status_code == 200

    wait_until(lambda: place(bob, BUY, 40))
    wait_until(lambda: place(ada, SELL, 40))
    assert server.until_settled().difference == 0
    fee = UNIT * 40 // 10_000  # one per cent of the lower of 40 and 60 cents
    assert server.escrow_of(ada)[0] == 2 * UNIT + UNIT * 2 // 5 - fee
    assert server.escrow_of(bob, yes)[0] == UNIT


# ----- deposits and withdrawals ----------------------------------------------------------------


def test_gasless_deposit_and_withdrawal(server):
    ada = server.trader(2, allows=False)
    ada.approve_collateral()
    ada.approve_tokens()
    token = str(server.tokens()[0])
    for asset in ("collateral", token):
        body = {"user": ada.address, "asset": asset, "amount": str(2 * UNIT)}
        made = server.done("/api/gasless/deposit", body)
        assert made["depositTx"]
        assert made["pullTx"]
    assert escrows(server, ada)[:2] == [2 * UNIT, 2 * UNIT]
    server.until_available(ada, 2 * UNIT)
    server.until_available(ada, 2 * UNIT, token)
    request = server.signed_request(ada, UNIT)
    asked = server.done("/api/gasless/withdraw-request", request)
    assert asked["requestTx"]
    found = server.until_available(ada, UNIT)
    assert found["chain"] == {
        "balance": str(2 * UNIT), "allowance": None, "requested": str(UNIT),
    }  # fmt: skip
    problem(server.post("/api/gasless/withdraw-request", request), "NONCE_USED")
    paid_to = {"user": ada.address, "asset": "collateral"}
    early = problem(server.post("/api/gasless/withdraw", paid_to), "WITHDRAWAL_NOT_DUE")
    assert int(early["from"]) == asked["from"]
    server.pass_delay()
    paid = server.done("/api/gasless/withdraw", paid_to)
    assert (paid["amount"], server.ledger.collateral(ada.address)) == (str(UNIT), UNIT)
    wait_until(lambda: server.account(ada)["chain"]["requested"] == "0")
    assert server.account(ada)["available"] == str(UNIT)
    problem(server.post("/api/gasless/withdraw", paid_to), "NOTHING_TO_WITHDRAW")
    assert server.until_settled().difference == 0


def test_client_deposits_requests_and_withdraws(server):
    user = server.trader(2, allows=False, tokens=False)
    with Client(server.live.url, signer=user.key, rpc_url=server.url) as client:
        assert client.deposit("2", permit=True).amount == str(2 * UNIT)
        server.until_available(user, 2 * UNIT)
        assert client.request_withdrawal("0.5").amount == str(UNIT // 2)
        server.until_available(user, UNIT * 3 // 2)
        with pytest.raises(ResponseError, match="WITHDRAWAL_NOT_DUE"):
            client.withdraw()
        server.pass_delay()
        assert client.withdraw().amount == str(UNIT // 2)
    assert server.ledger.collateral(user.address) == UNIT // 2


def test_gasless_deposit_with_a_permit(server):
    ada = server.trader(1, allows=False, tokens=False)
    body = {"user": ada.address, "asset": "collateral", "amount": str(UNIT)}
    good(server.post("/api/gasless/deposit", {**body, "permit": ada.permit(UNIT)}))
    server.until_available(ada, UNIT)


def test_request_of_another_wallet_is_rejected(server):
    ada, eve = server.depositor(1), server.depositor(1)
    forged = {**server.signed_request(eve, UNIT), "user": ada.address}
    problem(server.post("/api/gasless/withdraw-request", forged), "INVALID_SIGNATURE")
    large = server.signed_request(ada, 2 * UNIT)
    problem(server.post("/api/gasless/withdraw-request", large), "INSUFFICIENT_BALANCE")
    late = server.signed_request(ada, UNIT, deadline=1)
    problem(server.post("/api/gasless/withdraw-request", late), "DEADLINE_PASSED")
    assert server.escrow_of(ada) == (UNIT, 0)


def test_requested_withdrawal_cancels_the_newest_uncovered_orders(server):
    ada = server.depositor(1)
    old, new = [server.placed(ada, BUY, 50)["orderId"] for _ in "ab"]
    server.request(ada, 0, UNIT // 2)
    wait_until(lambda: state_of(server, new) == "cancelled")
    assert state_of(server, old) == "open"
    server.request(ada, 0, 0)
    server.until_available(ada, UNIT // 2)
    assert server.until_settled().difference == 0


def test_stranger_deposits_for_a_wallet(server):
    ada, bob = server.user(f"0x{7:064x}"), server.trader(1)
    server.deposit(bob, 0, UNIT, wallet=ada)
    server.until_available(ada, UNIT)


# ----- stops -----------------------------------------------------------------------------------


def test_market_stops_while_a_trade_is_late_and_opens_again(server):
    ada, bob = server.depositor(), server.depositor()
    resting = server.placed(ada, SELL, 70)["orderId"]
    with server.proxy.inject(Drop("eth_sendRawTransaction")):
        server.trade(bob, ada)
        good(server.post("/api/test/clock", {"advanceMs": LATE_MS}))
        until_stalled(server, True)
        market = server.market()
        assert (market["mode"], market["custody"]) == ("cancelOnly", "escrow")
        assert "unsettled for more than 150 s" in market["stalled"]["reason"]
        body = problem(server.place(bob, BUY, 50), "MARKET_STALLED")
        assert body["retryable"]
        path = f"/api/orders/{resting}"
        good(server.http.request("DELETE", path, json={"maker": ada.address}))
        assert "rain" in server.settlement().stalled
    server.until_settled()
    until_stalled(server, False)
    server.trade(bob, ada)
    assert server.until_settled().difference == 0


def block_age_s(server):
    """Return the time since the chain was last read, by the metrics."""
    [line] = re.findall(
        r"^clob_settlement_block_age_seconds (\S+)$", server.http.get("/metrics").text, re.MULTILINE
    )
    return float(line)


def test_block_is_seen_while_the_chain_is_quiet_but_not_without_an_answer(server):
    time.sleep(2 * SEEN_S)
    assert block_age_s(server) < SEEN_S
    with server.proxy.inject(Drop()):
        wait_until(lambda: block_age_s(server) > SEEN_S)
    wait_until(lambda: block_age_s(server) < SEEN_S)


# ----- restarts and reorganisations ------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """Yield a function that starts the server, or starts it again, on one anvil."""
    with running(start_anvil()) as node, proxy_to(node) as proxy, ExitStack() as stack:
        lives = ExitStack()
        stack.callback(lives.close)

        def start():
            settings = SETTINGS | {"chain_final_blocks": FINAL_BLOCKS}
            live = lives.enter_context(live_server(tmp_path, chain=proxy.url, **settings))
            server = EscrowServer(live, node.url)
            server.node, server.proxy, server.stop = node, proxy, lives.close
            return server

        yield start


def make_final(server):
    """Mine the blocks that make the newest one final."""
    server.ask("anvil_mine", hex(FINAL_BLOCKS))


def test_deposit_counts_once_its_block_is_final(start):
    server = start().set_up()
    ada = server.depositor(1, tokens=False)
    wait_until(lambda: server.account(ada) is not None)
    found = server.account(ada)
    assert (found["available"], found["chain"]["balance"]) == ("0", str(UNIT))
    problem(server.place(ada, BUY, 50), "INSUFFICIENT_BALANCE")
    make_final(server)
    server.until_available(ada, UNIT)
    server.placed(ada, BUY, 50)


def test_deposit_that_the_chain_undid_covers_nothing(start):
    server = start().set_up()
    ada = server.trader(1, tokens=False)
    receipt = server.deposit(ada, 0, UNIT)
    wait_until(lambda: server.account(ada) is not None)
    depth = int(server.ask("eth_blockNumber"), 16) - int(receipt["blockNumber"], 16) + 1
    server.ask("anvil_reorg", depth, [])
    wait_until(lambda: (server.account(ada) or {"chain": None})["chain"] is None)
    make_final(server)
    problem(server.place(ada, BUY, 50), "INSUFFICIENT_BALANCE")
    assert server.until_settled().difference == 0


def test_trade_whose_block_the_chain_removed_settles_again(start):
    """The seller has requested its tokens meanwhile, which stops nothing."""
    server = start().set_up()
    ada, bob = server.depositor(1), server.depositor(1)
    make_final(server)
    server.until_available(ada, UNIT)
    server.trade(bob, ada)
    removed = block_of(server, until(server, "settled", final=False)["txHash"])
    remove_from(server, removed)
    server.request(ada, server.tokens()[0], UNIT)
    wait_until(lambda: server.escrow_of(bob, server.tokens()[0])[0] == 2 * UNIT)
    make_final(server)
    until(server, "settled", final=True)
    wait_until(lambda: server.settlement().difference == 0)
    assert escrows(server, ada)[:2] == [UNIT + UNIT // 2, 0]


def test_killed_server_continues_with_the_same_accounts(start, tmp_path):
    server = start().set_up()
    ada, bob = server.depositor(), server.depositor()
    make_final(server)
    server.until_available(ada, 5 * UNIT, str(server.tokens()[0]))
    server.until_available(bob, 5 * UNIT)
    with server.proxy.inject(Drop()):
        server.trade(bob, ada)
        server.request(bob, 0, 5 * UNIT)
        server.live.kill()
    server.stop()
    again = start()
    assert again.until_settled().difference == 0
    assert escrows(again, bob)[:2] == [5 * UNIT - UNIT // 2, 6 * UNIT]
    again.until_available(bob, 0)
    make_final(again)
    again.until_settled()
    again.stop()
    state, balances = accounts_of(tmp_path)
    assert balances[ada.address, again.escrow] == 5 * UNIT + UNIT // 2
    assert state.registry.stalls == {}


def test_tokens_are_withdrawn_from_a_resolved_market_and_redeemed(start):
    server = start().set_up()
    ada, bob = server.depositor(1), server.depositor(1)
    make_final(server)
    server.trade(bob, ada)
    server.until_settled()
    make_final(server)
    server.admin.admin_resolve_market("rain", "yes")
    server.wait_for("rain", "reported")
    yes = server.tokens()[0]
    server.request(bob, yes, 2 * UNIT)
    server.withdraw(bob, yes, fails=True)
    server.pass_delay()
    server.withdraw(bob, yes)
    assert server.ledger.token(bob.address, yes) == 2 * UNIT
    bob.approve_tokens()
    paid = server.redeem(bob, server.market())
    assert paid["amount"] == str(2 * UNIT)
    make_final(server)
    assert server.until_settled().difference == 0
