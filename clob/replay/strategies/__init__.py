"""Example strategies, to run and to adapt."""

from clob.replay.strategies.arbitrage import Arbitrage
from clob.replay.strategies.market_maker import InventoryAverse, MarketMaker

__all__ = ["Arbitrage", "InventoryAverse", "MarketMaker"]
