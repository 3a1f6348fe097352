"""JSON of the documented interface as structs: what a server sends, for servers and clients.

Amounts are wei in decimal digits, times Unix milliseconds, prices cents.
"""

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Base of all bodies: camel-case names in JSON."""
