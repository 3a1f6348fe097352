"""Signatures: single, in batches and on two threads, beside the curve alone and eth-account.

The raw side is a C loop of parse and recover, of the same library, over the same signatures. All
signatures are distinct. Both orders of eth-account end in the same address as ours.
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

from benchmarks.measure import Pair, Row, alternate, at_least, at_most, same, timed
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
    """Signed orders, as JSON has them, as fields, and as the raw loop takes them."""

    texts: list[dict[str, object]]
    orders: list[SignedOrder]
    digests: bytes
    signatures: bytes


@functools.cache
def flow(count: int) -> Flow:
    """Make so many orders by 20 makers; token ids and salts as wide as they come."""
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


def raw_ns(made: Flow) -> int:
    """Nanoseconds of the curve alone."""
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
    taken: int = loop(context, *address, made.digests, made.signatures, len(made.orders), mixed)
    same("the raw loop", True, taken > 0)
    return taken


# ----- ours ----------------------------------------------------------------------------------


def from_texts(made: Flow) -> None:
    """Read and verify, one by one."""
    read = SignedOrder.from_json
    for text in made.texts:
        verify(read(text), DOMAIN)


def from_fields(made: Flow) -> None:
    """Verify, one by one."""
    for order in made.orders:
        verify(order, DOMAIN)


def in_batch(made: Flow) -> None:
    """Verify all at once."""
    same("verify_batch", 0, max(verify_batch(made.orders, DOMAIN)))


def on_threads(pool: ThreadPoolExecutor, made: Flow) -> None:
    """Verify in batches, each a task of the pool."""
    every = range(0, len(made.orders), PER_THREAD_CALL)
    parts = [made.orders[start : start + PER_THREAD_CALL] for start in every]
    found = list(pool.map(lambda part: max(verify_batch(part, DOMAIN)), parts))
    same("verify_batch on threads", 0, max(found))


# ----- eth-account ---------------------------------------------------------------------------


def by_eth_account(made: Flow) -> None:
    """What one would write with eth-account alone."""
    for order in made.orders:
        data = typed_data(order, DOMAIN)
        found = Account.recover_message(
            encode_typed_data(full_message=data), signature=order.signature
        )
        same("eth-account", order.signer, found)


@contextmanager
def in_plain_python() -> Iterator[None]:
    """Have eth-account find no coincurve, as where it is not installed."""
    os.environ["ECC_BACKEND_CLASS"] = "eth_keys.backends.NativeECCBackend"
    try:
        yield
    finally:
        del os.environ["ECC_BACKEND_CLASS"]


def by_eth_account_alone(made: Flow) -> None:
    """The same where coincurve is not installed."""
    with in_plain_python():
        by_eth_account(made)


Work = Callable[[Flow], object]


def beside(other: Work, ours: Work, made: Flow, rounds: int) -> Pair:
    """Both on the same orders, in turn."""
    sides = (lambda: timed(lambda: other(made))), (lambda: timed(lambda: ours(made)))
    return alternate(*sides, len(made.orders), rounds)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    made, rounds = (flow(NUM_QUICK), ROUNDS_QUICK) if quick else (flow(NUM_ORDERS), ROUNDS)
    where = f"signing, {BACKEND}:"
    for title, limit, work in (
        ("single from JSON texts", 1.20, from_texts),
        ("single from fields", 1.12, from_fields),
        ("batch", 1.08, in_batch),
    ):
        ours = functools.partial(timed, functools.partial(work, made))
        pair = alternate(functools.partial(raw_ns, made), ours, len(made.orders), rounds)
        yield at_most(f"{where} {title} / raw", limit, pair)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
        on_one, on_two = (functools.partial(on_threads, pool) for pool in (one, two))
        yield at_least(f"{where} two threads / one", 1.85, beside(on_one, on_two, made, rounds))
    faster = beside(by_eth_account, from_fields, made, max(3, rounds // 3))
    yield at_least(f"{where} single / eth-account with coincurve", 5.5, faster)
    alone = beside(by_eth_account_alone, from_fields, flow(NUM_NATIVE), 5)
    yield at_least(f"{where} single / eth-account without", 100, alone)
