"""State derived from chain updates, accounts computed from logs, and a market that settles."""

from collections import Counter, defaultdict

import msgspec
from eth_abi import decode
from eth_utils import keccak, to_checksum_address

from clob.order import Side
from clob.signing import Domain, SignedOrder, sign
from clob.wire.operations import FillBody, SettleBody
from clob_server.chain.events import ChainUpdate, StartWatching, WatchTokens, WatchWallets
from clob_server.chain.messages import OperationDone
from tests.chain.chains import done, split
from tests.chain.signed_fills import party_of
from tests.chain.wallets import MAX, receipt_of, transfers_of

ONE = 10**18
UNITS = 1_000
CALLS = {
    "delegate": "setDelegate(address,bool)",
    "payer": "setPayer(address,bool)",
    "payee": "setPayee(address,bool)",
}


class ServerMirror:
    """State that a server derives from chain updates alone.

    Args:
        worker: source of the updates.
    """

    def __init__(self, worker):
        self.worker = worker
        self.block, self.hash = None, ""
        self.accounts = {}
        """Available amounts by wallet and asset, without zeros."""
        self.wallets = []
        self.permissions = set()
        self.settlements = []
        self.read = set()
        """Wallets that were read on request."""
        self.nonces = {}
        self.cancelled = []
        self.num_whole = 0
        self.is_part = False
        """Whether the current update continues in the next message."""
        self.num_processed = 0
        """Number of worker messages that were processed."""

    def watch(self, *tokens):
        """Start the updates, as after a start of the server."""
        request = StartWatching(
            after_block=self.block,
            block_hash=self.hash,
            wallets=self.wallets,
            tokens=[str(token) for token in tokens],
            permissions=sorted(self.permissions),
        )
        self.worker.send(request)
        self.until(lambda: self.num_whole)

    def add(self, *tokens):
        """Watch additional tokens."""
        self.worker.send(WatchTokens(tokens=[str(token) for token in tokens]))

    def drop(self, *users):
        """Have wallets dropped from the next read on."""
        dropped = [user.address for user in users]
        self.worker.send(WatchWallets(dropped=dropped))
        self.wallets = [wallet for wallet in self.wallets if wallet not in dropped]

    def ask_for(self, *users):
        """Have wallets watched again, and wait until they were read."""
        names = {user.address for user in users}
        self.worker.send(WatchWallets(wallets=sorted(names)))
        self.until(lambda: names <= self.read and not self.is_part)
        self.read -= names
        self.wallets += sorted(names - set(self.wallets))

    def continue_with(self, worker, *tokens):
        """Continue with another worker."""
        self.worker, self.num_processed, self.num_whole = worker, 0, 0
        self.watch(*tokens)

    def until(self, condition):
        """Process updates until a condition is true."""
        while not condition():
            message = self.worker.wait_for(
                lambda message: type(message) is ChainUpdate, self.num_processed
            )
            self.num_processed = self.worker.messages.index(message, self.num_processed) + 1
            self.take(message)

    def wait_for(self, receipt):
        """Process updates until the block of a receipt was reported."""
        block = int(receipt["blockNumber"], 16)
        self.until(lambda: self.block is not None and self.block >= block and not self.is_part)

    def is_at(self, node, receipt):
        """Return whether the block of a receipt was reported on the node's current chain."""
        if self.is_part or self.block < int(receipt["blockNumber"], 16):
            return False
        block = node.ask("eth_getBlockByNumber", hex(self.block), False)
        return block is not None and block["hash"] == self.hash

    def take(self, update):
        """Process one message."""
        if update.whole:
            self.num_whole += not update.more
            if not self.is_part:
                self.accounts = {}
        self.is_part = update.more
        self.block, self.hash = update.block, update.hash
        for each in update.holdings:
            self.accounts[each.wallet, each.asset] = int(each.amount)
        self.accounts = {account: amount for account, amount in self.accounts.items() if amount}
        for each in update.permissions:
            key = each.kind, each.owner, each.other
            (self.permissions.add if each.allowed else self.permissions.discard)(key)
        assert not set(update.wallets) & set(self.wallets)
        self.wallets += update.wallets
        self.settlements += update.settlements
        self.read.update(update.read)
        self.nonces |= {each.maker: int(each.nonce) for each in update.raised}
        self.cancelled += update.cancelled


class LogAccounts:
    """Accounts computed from all logs of the chain.

    Args:
        chain: the chain.
    """

    def __init__(self, chain):
        self.node, contracts = chain.node, chain.contracts
        self.exchange, self.collateral = contracts.exchange, contracts.collateral
        self.tokens = contracts.conditional_tokens

    def accounts(self, *watched):
        """Return the available amounts by wallet and asset, for collateral and watched tokens."""
        balances, allowances = self._collateral()
        available = {
            (wallet, self.collateral): min(balances[wallet], allowed)
            for wallet, allowed in allowances.items()
        }
        allowed, held = self._allowed(), self._held()
        for (token, wallet), amount in held.items():
            if token in watched and allowed[wallet]:
                available[wallet, str(token)] = amount
        return {account: amount for account, amount in available.items() if amount > 0}

    def statuses(self):
        """Return whether each trade settled, by trade id."""
        settled = self._logs(self.exchange, "Settled(uint256,bytes32,bytes32,uint256,uint256)")
        failed = self._logs(self.exchange, "SettleFailed(uint256,bytes)")
        return {
            str(int(log["topics"][1], 16)): log in settled
            for log in sorted([*failed, *settled], key=position_of)
        }

    def _logs(self, address, signature):
        """Return all logs of an event."""
        query = {
            "address": address,
            "topics": [f"0x{keccak(text=signature).hex()}"],
            "fromBlock": "0x0",
            "toBlock": "latest",
        }
        return self.node.ask("eth_getLogs", query)

    def _collateral(self):
        """Return balances and allowances of collateral."""
        moves = self._logs(self.collateral, "Transfer(address,address,uint256)")
        approvals = self._logs(self.collateral, "Approval(address,address,uint256)")
        balances, allowances = Counter(), Counter()
        for log in sorted([*moves, *approvals], key=position_of):
            source, target = address_in_topic(log, 1), address_in_topic(log, 2)
            [amount] = decode(["uint256"], bytes.fromhex(log["data"][2:]))
            if log in approvals:
                if target == self.exchange:
                    allowances[source] = amount
                continue
            balances[source] -= amount
            balances[target] += amount
            if allowances[source] != MAX and self._was_settled(log):
                allowances[source] -= amount
        return balances, allowances

    def _was_settled(self, log):
        """Return whether the exchange made the transfer."""
        sent = self.node.ask("eth_getTransactionByHash", log["transactionHash"])
        return to_checksum_address(sent["to"]) == self.exchange

    def _allowed(self):
        """Return the wallets that approved the exchange for tokens."""
        allowed = defaultdict(bool)
        for log in sorted(
            self._logs(self.tokens, "ApprovalForAll(address,address,bool)"), key=position_of
        ):
            if address_in_topic(log, 2) == self.exchange:
                allowed[address_in_topic(log, 1)] = int(log["data"], 16) == 1
        return allowed

    def _held(self):
        """Return the token balances."""
        held = Counter()
        query = {"address": self.tokens, "fromBlock": "0x0", "toBlock": "latest"}
        for log in self.node.ask("eth_getLogs", query):
            for source, target, token, amount in transfers_of(log):
                held[token, source] -= amount
                held[token, target] += amount
        return held


def position_of(log):
    """Return the position of a log on the chain."""
    return int(log["blockNumber"], 16), int(log["logIndex"], 16)


def address_in_topic(log, index):
    """Return the address in a topic."""
    return to_checksum_address(log["topics"][index][-40:])


class SettlingMarket:
    """A market whose trades settle, and its traders.

    Args:
        chain: the chain.
        worker: a worker that is ready.
    """

    def __init__(self, chain, worker):
        self.chain, self.worker = chain, worker
        self.exchange = chain.contracts.exchange
        self.condition = chain.condition(worker)
        self.domain = Domain("clob", "1", 31337, self.exchange)
        self.books = LogAccounts(chain)
        self.num_trades = self.num_orders = 0

    @property
    def tokens(self):
        """Both token ids."""
        return self.condition.yes, self.condition.no

    def trader(self, units=UNITS, *, tokens=0, approves=True):
        """Return a user with collateral and some of both tokens."""
        user = self.chain.user(self.worker, units, approved=bool(tokens))
        if tokens:
            done(self.worker, f"split {user.address}", split(user, self.condition, tokens))
        if approves:
            self.approve(user)
            self.approve_all(user)
        return user

    def approve(self, user, amount=MAX):
        """Approve collateral for the exchange."""
        return user.call(
            self.chain.contracts.collateral, "approve(address,uint256)", self.exchange, amount
        )

    def approve_all(self, user, allowed=True):
        """Approve tokens for the exchange, or revoke that."""
        contract, signature = (
            self.chain.contracts.conditional_tokens,
            "setApprovalForAll(address,bool)",
        )
        return user.call(contract, signature, self.exchange, allowed)

    def permit(self, user, kind, other, allowed=True):
        """Set or revoke a permission at the exchange."""
        return user.call(self.exchange, CALLS[kind], other, allowed)

    def fill(self, buyer, seller, size, price=50):
        """Return a trade of the first token, signed by both; the buy order rested."""
        self.num_trades += 1
        return FillBody(
            trade_id=str(self.num_trades),
            price=price,
            size=str(size),
            resting=self._party(buyer, Side.BUY, price, size),
            incoming=self._party(seller, Side.SELL, price, size),
        )

    def order(self, user, side, price, size):
        """Return a signed order for the first token."""
        self.num_orders += 1
        order = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            maker=user.address,
            token_id=self.condition.yes,
            salt=self.num_orders,
            signature_type=1,
        )
        return sign(order, self.domain, user.key)

    def _party(self, user, side, price, size):
        return party_of(self.order(user, side, price, size))

    def settle(self, *fills):
        """Settle trades and return the receipt."""
        name = f"settle {fills[0].trade_id}"
        end = self.worker.do(name, SettleBody(fills=list(fills)))
        assert type(end) is OperationDone, end
        return self.receipt(name)

    def receipt(self, name):
        """Return the receipt of a settlement."""
        hashed = msgspec.json.decode(self.worker.get(name).answer)["settleTx"]
        return receipt_of(self.chain.node, hashed)
