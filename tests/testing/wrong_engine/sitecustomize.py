"""Deliberate faults of the engine and the server, for the tests of the conformance suite.

Python imports this module at the start of each process whose ``PYTHONPATH`` has this folder, so
that the server and its history process have the same fault. The variable ``WRONG_SERVER`` names it;
``CLOB_PURE_PYTHON=1`` must be set, since compiled modules cannot be changed.
"""

import os
from importlib import import_module

import msgspec


def newest_first():
    """Put each order in front of its queue."""
    queues = import_module("clob.book._matching_py").Queues
    add = queues._add

    def add_in_front(self, order, events):
        add(self, order, events)
        self._sides[order.side][order.price].move_to_end(order.id, last=False)

    queues._add = add_in_front


def worst_price_first():
    """Match the worst price within the limit first."""
    queues = import_module("clob.book._matching_py").Queues
    match = queues._match

    def match_worst(self, incoming, policy, now_s, events):
        for price, queue in reversed(self._sides[1 - incoming.side].items()):
            for resting in list(queue.values()):
                if incoming.remaining and incoming.accepts(price):
                    self._trade(incoming, resting, events)
        match(self, incoming, policy, now_s, events)

    queues._match = match_worst


def price_of_the_incoming_order():
    """Trade at the limit of the incoming order."""
    module = import_module("clob.book._matching_py")
    trade, event = module.Queues._trade, module.Trade

    def trade_at_limit(self, incoming, resting, events):
        module.Trade = lambda **fields: event(**fields | {"price": incoming.price})
        trade(self, incoming, resting, events)

    module.Queues._trade = trade_at_limit


def fills_off_by_one():
    """Report each trade with a wei less than was traded."""
    module = import_module("clob.book._matching_py")
    event = module.Trade
    module.Trade = lambda **fields: event(**fields | {"size": fields["size"] - 1})


def equal_prices_do_not_trade():
    """Trade only if the prices overlap by a cent."""
    order = import_module("clob.book._matching_py").QueuedOrder
    accepts = order.accepts
    order.accepts = lambda self, price: accepts(self, price) and price != self.price


def signatures_unchecked():
    """Accept any signature of an order."""
    import_module("clob_server.orders.place").verify = lambda *_, **__: None


def cancel_signatures_unchecked():
    """Accept any signature of a cancel."""
    import_module("clob_server.orders.cancel").verify = lambda *_: None


def strangers_cancel():
    """Cancel an order for anyone who signs the request."""
    import_module("clob_server.orders.cancel")._check_maker = lambda *_: None
    rules = import_module("clob.matcher.rejections")
    find = rules._find_order

    def find_for_anyone(state, command, mode_max):
        return find(state, msgspec.structs.replace(command, maker=None), mode_max)

    rules._find_order = find_for_anyone


def expirations_ignored():
    """Accept orders past their expiration."""
    place = import_module("clob_server.orders.place")
    to_order = place.to_order

    def without_expiration(*arguments, **options):
        return msgspec.structs.replace(to_order(*arguments, **options), expiration_s=0)

    place.to_order = without_expiration


FAULT = os.environ.get("WRONG_SERVER")
if FAULT:
    globals()[FAULT]()
