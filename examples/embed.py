"""A book in your program: two orders, a trade, a rejection, the depth.

python examples/embed.py
"""

from clob import Event, Market, Matcher, Order, RejectedError, Side, Trade, tokens


def on_event(event: Event) -> None:
    """Handle an event; here trades only."""
    if isinstance(event, Trade):
        print(f"{event.buyer} bought {event.size / 10**18:g} at {event.price} from {event.seller}")


matcher = Matcher()
matcher.add_market(Market(id="rain", yes="101", no="102"))
now_ms = 1_700_000_000_000  # of your clock: the engine has none
for number, (maker, side, price, size) in enumerate(
    [
        ("alice", Side.SELL, 52, 40),
        ("bob", Side.BUY, 55, 25),
        ("carol", Side.BUY, 120, 5),
        ("carol", Side.BUY, 50, 5),
    ]
):
    order = Order(
        id=f"o{number}", token="101", maker=maker, side=side, price=price, size=tokens(size)
    )
    try:
        for event in matcher.submit("rain", order, now_ms=now_ms + number):
            on_event(event)
    except RejectedError as error:
        print(f"{maker}'s order is rejected: {error.code}: {error}")
depth = matcher.depth("rain")
print("bids", [(level.price, level.size // 10**18) for level in depth.bids])
print("asks", [(level.price, level.size // 10**18) for level in depth.asks])
