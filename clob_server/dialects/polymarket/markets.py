"""Markets by condition id and by token, as Polymarket's clients name them.

A market has the condition id of its condition, or else the hash of its market id. It is visible if
it has both tokens and they are numbers, as signed orders need.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from clob import AddMarket, Market, Mode, RemoveMarket, SetMarket
from clob.errors import UnknownMarketError
from clob.signing import keccak256
from clob.signing.fields import received
from clob.units import UINT256_MAX
from clob_server.core.commands import BindMarket
from clob_server.core.registry import MarketText
from clob_server.core.sequencer import Committed
from clob_server.core.state import ServerState
from clob_server.dialects.polymarket.units import TICK, decimal

OUTCOMES: Final = ("Yes", "No")
"""Names of the outcomes."""

_NO_HASH: Final = f"0x{bytes(32).hex()}"


class Token(NamedTuple):
    """An outcome token of a visible market."""

    market: str
    """The market id."""
    condition_id: str
    """The condition id, 0x and 64 hex digits."""
    token: str
    """The token, decimal digits."""
    other: str
    """The other token of the market."""
    outcome: str
    """``Yes`` or ``No``."""


class MarketIndex:
    """The visible markets; it follows the commands that change markets."""

    def __init__(self, state: ServerState) -> None:
        self._state: Final = state
        self._visible: dict[str, tuple[Token, Token]] = {}
        self._tokens: dict[str, Token] = {}
        self._conditions: dict[str, str] = {}
        for market in state.markets:
            self._update(market)

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Follow the changes of markets in a batch."""
        for done in batch:
            command = done.command
            if isinstance(command, AddMarket | SetMarket):
                self._update(command.market.id)
            elif isinstance(command, RemoveMarket | BindMarket):
                self._update(command.market)

    def token(self, token: str) -> Token:
        """Return a token.

        Raises:
            UnknownMarketError: it belongs to no visible market.
        """
        found = self._tokens.get(token)
        if found is None:
            raise UnknownMarketError(f"there is no order book of token {received(token[:99])}")
        return found

    def market(self, condition_id: str) -> Market:
        """Return the market of a condition id.

        Raises:
            UnknownMarketError: the market does not exist.
        """
        name = self._conditions.get(condition_id.lower())
        if name is None:
            raise UnknownMarketError(f"there is no market {received(condition_id[:99])}")
        return self._state.markets[name]

    def tokens(self, market: Market) -> tuple[Token, Token]:
        """Return the tokens of a visible market, YES first."""
        return self._visible[market.id]

    def sees(self, market: str) -> bool:
        """Return whether a market is visible."""
        return market in self._visible

    def page(self, first: int, count: int) -> list[Market]:
        """Return visible markets in the order in which they were created."""
        visible = (market for name, market in self._state.markets.items() if self.sees(name))
        return list(islice(visible, first, first + count))

    def _update(self, name: str) -> None:
        """Follow a change of a market, which may be hidden or removed."""
        for token in self._visible.pop(name, ()):
            del self._tokens[token.token]
            self._conditions.pop(token.condition_id, None)
        market = self._state.markets.get(name)
        if market is None or not (is_number(market.yes) and is_number(market.no)):
            return
        yes, no = market.yes, market.no
        condition = self._state.registry.conditions.get(market.id)
        raw = keccak256(market.id.encode()) if condition is None else condition.condition_id
        condition_id = f"0x{raw.hex()}"
        self._conditions[condition_id] = market.id
        self._tokens[yes] = Token(market.id, condition_id, yes, no, OUTCOMES[0])
        self._tokens[no] = Token(market.id, condition_id, no, yes, OUTCOMES[1])
        self._visible[name] = self._tokens[yes], self._tokens[no]


def is_number(token: str) -> bool:
    """Return whether a token is a uint256 in decimal digits.

    >>> is_number("101"), is_number("0101"), is_number("rain")
    (True, False, False)
    """
    is_decimal = token.isascii() and token.isdigit() and len(token) <= len(str(UINT256_MAX))
    return is_decimal and str(number := int(token)) == token and number <= UINT256_MAX


def market_json(index: MarketIndex, state: ServerState, market: Market) -> dict[str, Any]:
    """Return a market as Polymarket's clients read it; ``market_slug`` is the market id."""
    registry = state.registry
    words = registry.words.get(market.id, MarketText())
    condition = registry.conditions.get(market.id)
    return {
        **simplified_json(index, state, market),
        "enable_order_book": True,
        "accepting_order_timestamp": None,
        "minimum_order_size": float(decimal(market.min_size)),
        "minimum_tick_size": float(TICK),
        "question_id": _NO_HASH if condition is None else f"0x{condition.question_id.hex()}",
        "question": words.question,
        "description": words.description,
        "market_slug": market.id,
        "end_date_iso": None,
        "game_start_time": None,
        "seconds_delay": 0,
        "fpmm": "",
        "maker_base_fee": market.resting_fee_rate_bps,
        "taker_base_fee": market.incoming_fee_rate_bps,
        "notifications_enabled": False,
        "neg_risk": False,
        "neg_risk_market_id": "",
        "neg_risk_request_id": "",
        "icon": "",
        "image": "",
        "is_50_50_outcome": False,
        "tags": [],
    }


def simplified_json(index: MarketIndex, state: ServerState, market: Market) -> dict[str, Any]:
    """Return the short form of a market."""
    words = state.registry.words.get(market.id, MarketText())
    is_open = market.mode is Mode.OPEN
    return {
        "condition_id": index.tokens(market)[0].condition_id,
        "tokens": [
            {
                "token_id": token.token,
                "outcome": token.outcome,
                "price": middle(state, token) / 200,
                "winner": words.outcome == token.outcome.lower(),
            }
            for token in index.tokens(market)
        ],
        "rewards": {"rates": None, "min_size": 0, "max_spread": 0},
        "active": True,
        "closed": market.mode is Mode.RESOLVED,
        "archived": False,
        "accepting_orders": is_open,
    }


def best_prices(state: ServerState, token: Token) -> tuple[int, int]:
    """Return the best bid and ask in cents; 0 without a bid, 100 without an ask."""
    depth = state.matcher.depth(token.market, token.token, 1)
    return (
        depth.bids[0].price if depth.bids else 0,
        depth.asks[0].price if depth.asks else 100,
    )


def middle(state: ServerState, token: Token) -> int:
    """Return the middle of the best prices in half cents."""
    return sum(best_prices(state, token))
