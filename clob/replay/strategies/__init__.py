"""Strategies to begin with: read them, run them, write your own after them."""

from clob.replay.strategies.arbitrage import Arbitrage
from clob.replay.strategies.market_maker import InventoryAverse, MarketMaker

__all__ = ["Arbitrage", "InventoryAverse", "MarketMaker"]
