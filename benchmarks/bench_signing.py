"""Signature benchmarks: single, batched and on two threads, compared with the bare curve operation.

The raw baseline is a C loop of parse and recover from the same library over the same, distinct
signatures. The second baseline is eth-account, with coincurve and without; it must recover the same
addresses.
"""

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from coincurve._libsecp256k1 import ffi, lib
from eth_account import Account
from eth_account.messages import encode_typed_data

from benchmarks.measure import Pair, Row, alternate, at_least, at_most, check_equal, timed
from benchmarks.native import compiled
from clob import Side
from clob.signing import (
    BACKEND,
    Domain,
    SignedOrder,
    order_hash,
    sign,
    typed_data,
    verify,
    verify_batch,
)

SOURCE = Path(__file__).with_name("raw_recover.c")
COMPILE = ("gcc", "-O3", "-shared", "-fPIC")
DOMAIN = Domain("clob", "1", 31337, "0x5FbDB2315678afecb367f032d93F642f64180aa3")
NUM_ORDERS, NUM_QUICK = 400, 40
ROUNDS, ROUNDS_QUICK = 21, 3
NUM_NATIVE = 8
PER_THREAD_CALL = 100


class Flow(NamedTuple):
    """Signed orders as JSON texts, as objects, and as bytes for the raw loop."""

    texts: list[dict[str, object]]
    orders: list[SignedOrder]
    digests: bytes
    signatures: bytes


@functools.cache
def make_flow(count: int) -> Flow:
    """Return ``count`` signed orders of 20 makers, with token ids and salts of realistic width."""
    accounts = [Account.from_key(number.to_bytes(32)) for number in range(1, 21)]
    orders = []
    for number in range(count):
        account = accounts[number % len(accounts)]
        order = SignedOrder.from_price_size(
            side=Side(number % 2),
            price=1 + number % 99,
            size=(1 + number % 1000) * 10**16,
            maker=account.address,
            token_id=pow(3, 160 + number % 2) + number,
            salt=1_700_000_000_000 + number,
            expiration_s=1_900_000_000,
        )
        orders.append(sign(order, DOMAIN, account.key))
    raw = [bytes.fromhex(order.signature[2:]) for order in orders]
    return Flow(
        texts=[{name: str(value) for name, value in order.to_json().items()} for order in orders],
        orders=orders,
        digests=b"".join(order_hash(order, DOMAIN) for order in orders),
        signatures=b"".join(each[:64] + bytes([each[64] - 27]) for each in raw),
    )


def raw_ns(flow: Flow) -> int:
    """Return the time of the bare curve operations in nanoseconds."""
    loop = compiled("raw_recover", COMPILE, SOURCE).raw_recover
    loop.restype = ctypes.c_uint64
    loop.argtypes = (
        *[ctypes.c_void_p] * 3,
        *[ctypes.c_char_p] * 2,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    names = ("secp256k1_ecdsa_recoverable_signature_parse_compact", "secp256k1_ecdsa_recover")
    address = [int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in names]
    context = int(ffi.cast("uintptr_t", lib.secp256k1_context_static))
    mixed = ctypes.create_string_buffer(64)
    taken: int = loop(context, *address, flow.digests, flow.signatures, len(flow.orders), mixed)
    check_equal("raw loop accepts the signatures", True, taken > 0)
    return taken


# ----- clob.signing --------------------------------------------------------------------------


def from_texts(flow: Flow) -> None:
    """Read JSON texts and verify them one by one."""
    read = SignedOrder.from_json
    for text in flow.texts:
        verify(read(text), DOMAIN)


def from_fields(flow: Flow) -> None:
    """Verify orders one by one."""
    for order in flow.orders:
        verify(order, DOMAIN)


def in_batch(flow: Flow) -> None:
    """Verify all orders in one call."""
    check_equal("verify_batch", 0, max(verify_batch(flow.orders, DOMAIN)))


def on_threads(pool: ThreadPoolExecutor, flow: Flow) -> None:
    """Verify in batches, one task of the pool per batch."""
    starts = range(0, len(flow.orders), PER_THREAD_CALL)
    parts = [flow.orders[start : start + PER_THREAD_CALL] for start in starts]
    results = list(pool.map(lambda part: max(verify_batch(part, DOMAIN)), parts))
    check_equal("verify_batch on threads", 0, max(results))


# ----- eth-account ---------------------------------------------------------------------------


def by_eth_account(flow: Flow) -> None:
    """Recover addresses with eth-account and its typed-data encoder."""
    for order in flow.orders:
        data = typed_data(order, DOMAIN)
        signer = Account.recover_message(
            encode_typed_data(full_message=data), signature=order.signature
        )
        check_equal("signer by eth-account", order.signer, signer)


@contextmanager
def in_plain_python() -> Iterator[None]:
    """Make eth-account use plain Python, as if coincurve were not installed."""
    os.environ["ECC_BACKEND_CLASS"] = "eth_keys.backends.NativeECCBackend"
    try:
        yield
    finally:
        del os.environ["ECC_BACKEND_CLASS"]


def by_eth_account_alone(flow: Flow) -> None:
    """Recover addresses with eth-account in plain Python."""
    with in_plain_python():
        by_eth_account(flow)


Work = Callable[[Flow], object]


def compare(other: Work, ours: Work, flow: Flow, rounds: int) -> Pair:
    """Measure both sides on the same orders, in turn."""
    sides = (lambda: timed(lambda: other(flow))), (lambda: timed(lambda: ours(flow)))
    return alternate(*sides, len(flow.orders), rounds)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    flow, rounds = (
        (make_flow(NUM_QUICK), ROUNDS_QUICK) if quick else (make_flow(NUM_ORDERS), ROUNDS)
    )
    prefix = f"signing, {BACKEND}:"
    for title, limit, work in (
        ("single from JSON texts", 1.20, from_texts),
        ("single from fields", 1.12, from_fields),
        ("batch", 1.08, in_batch),
    ):
        ours = functools.partial(timed, functools.partial(work, flow))
        pair = alternate(functools.partial(raw_ns, flow), ours, len(flow.orders), rounds)
        yield at_most(f"{prefix} {title} / raw", limit, pair)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
        on_one, on_two = (functools.partial(on_threads, pool) for pool in (one, two))
        yield at_least(f"{prefix} two threads / one", 1.85, compare(on_one, on_two, flow, rounds))
    faster = compare(by_eth_account, from_fields, flow, max(3, rounds // 3))
    yield at_least(f"{prefix} single / eth-account with coincurve", 5.5, faster)
    alone = compare(by_eth_account_alone, from_fields, make_flow(NUM_NATIVE), 5)
    yield at_least(f"{prefix} single / eth-account without coincurve", 100, alone)
