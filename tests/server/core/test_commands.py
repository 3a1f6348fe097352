"""Encoding of server commands: they round-trip, and damaged bytes are rejected."""

from typing import Literal, get_args, get_origin

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clob import Expire
from clob.codec import encode as encode_engines
from clob_server.core.commands import (
    ENGINE,
    SERVER,
    AddKey,
    AdvanceClock,
    ApiKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Condition,
    DeactivateCredentials,
    DeactivateKey,
    DescribeExchange,
    DescribeMarket,
    EndTrades,
    ExchangeSettings,
    FireSwitch,
    FollowChain,
    GiveBack,
    Grant,
    KeepSwitches,
    OrderCharge,
    Owner,
    RecordCustody,
    RecordOpener,
    RecordOutbox,
    RecordRestore,
    ReviseTrades,
    SendTrades,
    ServerCommand,
    SetBudgets,
    SetCancelOnDisconnect,
    SetDelegate,
    SetHeartbeat,
    SetOutcome,
    SignatureRecord,
    StallMarket,
    TakeOver,
    TradeEnd,
    decode_own,
    encode,
)
from clob_server.log import LogDamagedError

NOW_MS = 1_700_000_000_123
MAKER, DELEGATE = "0x" + "a1" * 20, "0x" + "b2" * 20
KEY = ApiKey(
    id="clob_test_4fzzzx",
    hash=bytes(range(32)),
    name="bot of Ann",
    environment="test",
    scopes=("read", "trade"),
    makers=(MAKER,),
    created_ms=NOW_MS,
    orders_per_minute=600,
)
CONDITION = Condition(
    question_id=bytes(range(32)),
    condition_id=bytes(32),
    oracle=MAKER,
    collateral=DELEGATE,
    yes=str(2**256 - 1),
    no="7",
)

GOLDEN = [
    (
        OrderCharge(
            now_ms=NOW_MS,
            charges=((b"key\x00", 2), (b"\xff\x7f\x00\x00\x01", 1)),
            payers=(b"key\x00", None),
        ),
        "8193cf0000018bcfe5687b9292c4046b6579000292c405ff7f0000010192c4046b657900c0",
    ),
    (
        AddKey(now_ms=NOW_MS, key=KEY),
        (
            "8292cf0000018bcfe5687b9ab0636c6f625f746573745f34667a7a7a78c420000102030405060708090a0b0c"
            "0d0e0f101112131415161718191a1b1c1d1e1faa626f74206f6620416e6ea47465737492a472656164a57472"
            "61646591d92a3078613161316131613161316131613161316131613161316131613161316131613161316131"
            "61316131cf0000018bcfe5687bc0cd0258c0"
        ),
    ),
    (
        DeactivateKey(now_ms=NOW_MS, key_id=KEY.id),
        "8392cf0000018bcfe5687bb0636c6f625f746573745f34667a7a7a78",
    ),
    (
        SetDelegate(
            now_ms=NOW_MS, maker=MAKER, delegate=DELEGATE, allowed=True, nonce=str(2**256 - 1)
        ),
        (
            "8495cf0000018bcfe5687bd92a30786131613161316131613161316131613161316131613161316131613161"
            "3161316131613161316131d92a30786232623262326232623262326232623262326232623262326232623262"
            "3262326232623262326232c3d94e313135373932303839323337333136313935343233353730393835303038"
            "3638373930373835333236393938343636353634303536343033393435373538343030373931333132393633"
            "39393335"
        ),
    ),
    (
        DescribeMarket(now_ms=NOW_MS, market="rain", question="Does it rain in Zürich?"),
        "8594cf0000018bcfe5687ba47261696eb8446f6573206974207261696e20696e205ac3bc726963683fa0",
    ),
    (
        SetOutcome(now_ms=NOW_MS, market="rain", outcome="yes", now=True),
        "8694cf0000018bcfe5687ba47261696ea3796573c3",
    ),
    (
        SetBudgets(now_ms=NOW_MS, budgets=Budgets(orders_per_minute=0)),
        "8792cf0000018bcfe5687b9464ccf000ccf0",
    ),
    (
        Grant(now_ms=NOW_MS, operation="op_1", user=MAKER, amount=100),
        (
            "8894cf0000018bcfe5687ba46f705f31d92a3078613161316131613161316131613161316131613161316131"
            "6131613161316131613161316131613164"
        ),
    ),
    (GiveBack(now_ms=NOW_MS, operation="op_1"), "8992cf0000018bcfe5687ba46f705f31"),
    (
        BindMarket(now_ms=NOW_MS, market="rain", condition=CONDITION),
        (
            "8a93cf0000018bcfe5687ba47261696e97c420000102030405060708090a0b0c0d0e0f101112131415161718"
            "191a1b1c1d1e1fc4200000000000000000000000000000000000000000000000000000000000000000d92a30"
            "7861316131613161316131613161316131613161316131613161316131613161316131613161316131d92a30"
            "7862326232623262326232623262326232623262326232623262326232623262326232623262326232d94e31"
            "3135373932303839323337333136313935343233353730393835303038363837393037383533323639393834"
            "363635363430353634303339343537353834303037393133313239363339393335a137c2"
        ),
    ),
    (
        BeginSettlement(now_ms=NOW_MS, base=bytes(range(16))),
        "8b92cf0000018bcfe5687bc410000102030405060708090a0b0c0d0e0f",
    ),
    (
        SendTrades(now_ms=NOW_MS, operation="settle-1", trades=(1, 2**40)),
        "8c93cf0000018bcfe5687ba8736574746c652d319201cf0000010000000000",
    ),
    (
        EndTrades(
            now_ms=NOW_MS,
            ends=(
                TradeEnd(trade=1, tx="0x" + "ab" * 32, block=300),
                TradeEnd(
                    trade=2**40,
                    tx="0x" + "cd" * 32,
                    reason="NotGasless",
                    block=301,
                    responsible=(MAKER,),
                ),
            ),
            cool_ms=60_000,
        ),
        (
            "8d93cf0000018bcfe5687b929501d94230786162616261626162616261626162616261626162616261626162"
            "6162616261626162616261626162616261626162616261626162616261626162616261626162a0cd012c9095"
            "cf0000010000000000d942307863646364636463646364636463646364636463646364636463646364636463"
            "646364636463646364636463646364636463646364636463646364636463646364aa4e6f744761736c657373"
            "cd012d91d92a3078613161316131613161316131613161316131613161316131613161316131613161316131"
            "61316131cdea60"
        ),
    ),
    (
        FollowChain(
            now_ms=NOW_MS,
            block=2**40,
            hash="0x" + "ef" * 32,
            wallets=(MAKER,),
            permissions=(("payer", MAKER, DELEGATE, True),),
            cancelled=("0x" + "12" * 32,),
            cancelled_in=(2**40,),
            raised=((MAKER, "7", 2**40),),
            after_block=2**40 - 1,
            final_block=5,
        ),
        (
            "8e9acf0000018bcfe5687bcf0000010000000000d94230786566656665666566656665666566656665666566"
            "6566656665666566656665666566656665666566656665666566656665666566656665666566656665666566"
            "91d92a3078613161316131613161316131613161316131613161316131613161316131613161316131613161"
            "319194a57061796572d92a307861316131613161316131613161316131613161316131613161316131613161"
            "316131613161316131d92a307862326232623262326232623262326232623262326232623262326232623262"
            "326232623262326232c391d94230783132313231323132313231323132313231323132313231323132313231"
            "323132313231323132313231323132313231323132313231323132313231323132313291cf00000100000000"
            "009193d92a307861316131613161316131613161316131613161316131613161316131613161316131613161"
            "316131a137cf0000010000000000cf000000ffffffffff05"
        ),
    ),
    (
        DescribeExchange(
            now_ms=NOW_MS,
            exchange=ExchangeSettings(
                environment="production",
                eip712_name="venue",
                eip712_version="2",
                chain_id="137",
                verifying_contract="",
                rules=(("price_policy", "strict"),),
            ),
        ),
        (
            "8f92cf0000018bcfe5687b96aa70726f64756374696f6ea576656e7565a132a3313337a09192ac7072696365"
            "5f706f6c696379a6737472696374"
        ),
    ),
    (
        ReviseTrades(now_ms=NOW_MS, trades=(1, 2**40), reason="block 7"),
        "9093cf0000018bcfe5687b9201cf0000010000000000a7626c6f636b2037",
    ),
    (
        RecordOpener(now_ms=NOW_MS, market="rain", payer=bytes(range(8))),
        "9193cf0000018bcfe5687ba47261696ec4080001020304050607",
    ),
    (
        RecordCustody(now_ms=NOW_MS, market="rain", custody="escrow"),
        "9293cf0000018bcfe5687ba47261696ea6657363726f77",
    ),
    (
        StallMarket(now_ms=NOW_MS, market="rain", reason="late"),
        "9393cf0000018bcfe5687ba47261696ea46c617465",
    ),
    (
        RecordRestore(
            now_ms=1_700_000_000_123, replaced_seq=12, replaced_hash=b"\xab" * 32, note="moved"
        ),
        (
            "9694cf0000018bcfe5687b0cc420abababababababababababababababababababababababababababababab"
            "ababa56d6f766564"
        ),
    ),
    (
        DeactivateCredentials(now_ms=NOW_MS, address="0xA11CE", nonce=7),
        "a093cf0000018bcfe5687ba73078413131434507",
    ),
    (
        SetHeartbeat(now_ms=NOW_MS, maker="0xA11CE", timeout_ms=5_000),
        "aa93cf0000018bcfe5687ba730784131314345cd1388",
    ),
    (
        SetCancelOnDisconnect(now_ms=NOW_MS, maker="0xA11CE", armed=True),
        "ab93cf0000018bcfe5687ba730784131314345c3",
    ),
    (
        FireSwitch(now_ms=NOW_MS, maker="0xA11CE", cause="heartbeat"),
        "ac93cf0000018bcfe5687ba730784131314345a9686561727462656174",
    ),
    (KeepSwitches(now_ms=NOW_MS, num_armed=1), "ad92cf0000018bcfe5687b01"),
    (
        AdvanceClock(now_ms=NOW_MS, advance_ms=86_400_000),
        "ae92cf0000018bcfe5687bce05265c00",
    ),
    (
        TakeOver(now_ms=NOW_MS, owner=Owner(epoch=3, node="a", url="http://a", keys=b"\xab" * 16)),
        "af92cf0000018bcfe5687b9403a161a8687474703a2f2f61c410abababababababababababababababab",
    ),
    (RecordOutbox(now_ms=NOW_MS, number=4, data=b"\x92\x01"), "b093cf0000018bcfe5687b04c4029201"),
]
"""A command of each kind and its bytes, which later versions must read."""

OLDER = [
    (
        SetOutcome(now_ms=NOW_MS, market="rain", outcome="yes"),
        "8693cf0000018bcfe5687ba47261696ea3796573",
    ),
    (
        EndTrades(
            now_ms=NOW_MS,
            ends=(
                TradeEnd(trade=1, tx="0x" + "ab" * 32),
                TradeEnd(trade=2**40, tx="0x" + "cd" * 32, reason="NotGasless"),
            ),
        ),
        (
            "8d92cf0000018bcfe5687b929301d94230786162616261626162616261626162616261626162616261626162"
            "6162616261626162616261626162616261626162616261626162616261626162616261626162a093cf000001"
            "0000000000d94230786364636463646364636463646364636463646364636463646364636463646364636463"
            "6463646364636463646364636463646364636463646364636463646364aa4e6f744761736c657373"
        ),
    ),
    (
        FollowChain(
            now_ms=NOW_MS,
            block=2**40,
            hash="0x" + "ef" * 32,
            wallets=(MAKER, DELEGATE),
            permissions=(("payer", MAKER, DELEGATE, True), ("gasless", MAKER, MAKER, False)),
            cancelled=("0x" + "12" * 32,),
        ),
        (
            "8e96cf0000018bcfe5687bcf0000010000000000d94230786566656665666566656665666566656665666566"
            "6566656665666566656665666566656665666566656665666566656665666566656665666566656665666566"
            "92d92a3078613161316131613161316131613161316131613161316131613161316131613161316131613161"
            "31d92a3078623262326232623262326232623262326232623262326232623262326232623262326232623262"
            "329294a57061796572d92a307861316131613161316131613161316131613161316131613161316131613161"
            "316131613161316131d92a307862326232623262326232623262326232623262326232623262326232623262"
            "326232623262326232c394a76761736c657373d92a3078613161316131613161316131613161316131613161"
            "31613161316131613161316131613161316131d92a3078613161316131613161316131613161316131613161"
            "31613161316131613161316131613161316131c291d942307831323132313231323132313231323132313231"
            "3231323132313231323132313231323132313231323132313231323132313231323132313231323132313231"
            "32"
        ),
    ),
    (
        BindMarket(now_ms=NOW_MS, market="rain", condition=CONDITION),
        (
            "8a93cf0000018bcfe5687ba47261696e96c420000102030405060708090a0b0c0d0e0f101112131415161718"
            "191a1b1c1d1e1fc4200000000000000000000000000000000000000000000000000000000000000000d92a30"
            "7861316131613161316131613161316131613161316131613161316131613161316131613161316131d92a30"
            "7862326232623262326232623262326232623262326232623262326232623262326232623262326232d94e31"
            "3135373932303839323337333136313935343233353730393835303038363837393037383533323639393834"
            "363635363430353634303339343537353834303037393133313239363339393335a137"
        ),
    ),
]
"""Commands of earlier versions, without the fields that were added since."""

COMMANDS = [command for command, _ in GOLDEN]


def named(command):
    return type(command).__name__


def test_signature_record_encoding_is_stable():
    record = SignatureRecord(
        signer=MAKER,
        salt="115792089237316195423570985008687907853269984665640564039457584007913129639935",
        taker="0x" + "00" * 20,
        signature_type=2,
        signature=bytes(range(65)),
    )
    golden = (
        "95d92a3078613161316131613161316131613161316131613161316131613161316131613161316131613161"
        "31d94e3131353739323038393233373331363139353432333537303938353030383638373930373835333236"
        "39393834363635363430353634303339343537353834303037393133313239363339393335d92a3078303030"
        "3030303030303030303030303030303030303030303030303030303030303030303030303002c44100010203"
        "0405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
        "303132333435363738393a3b3c3d3e3f40"
    )
    assert msgspec.msgpack.encode(record).hex() == golden
    assert msgspec.msgpack.decode(bytes.fromhex(golden), type=SignatureRecord) == record


@pytest.mark.parametrize(("command", "golden"), GOLDEN, ids=[named(each) for each in COMMANDS])
def test_command_encoding_is_stable(command, golden):
    assert encode(command).hex() == golden
    assert decode_own(bytes.fromhex(golden)) == command


def test_charge_without_payers_as_written_before_is_decoded():
    raw = bytes.fromhex("8192cf0000018bcfe5687b9192c4046b65790001")
    assert decode_own(raw) == OrderCharge(now_ms=NOW_MS, charges=((b"key\x00", 1),))


@pytest.mark.parametrize(("command", "golden"), OLDER, ids=[named(each) for each, _ in OLDER])
def test_commands_of_earlier_versions_are_read(command, golden):
    assert decode_own(bytes.fromhex(golden)) == command


def test_golden_bytes_cover_every_kind():
    assert {type(command) for command in COMMANDS} == SERVER
    kinds = [kind.KIND for kind in get_args(ServerCommand)]
    assert kinds == sorted(set(kinds))
    assert set(kinds) <= set(range(128, 256))


def test_engine_commands_use_the_encoding_of_the_engine():
    assert encode(Expire(now_ms=7)) == encode_engines(Expire(now_ms=7))
    assert Expire in ENGINE
    assert not ENGINE & SERVER


# ----- any content ---------------------------------------------------------------------------


def drawn(kind):
    """Return a strategy for values of a field type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return st.builds(kind, **{field.name: drawn(field.type) for field in fields})
    simple = {
        int: st.integers(-(2**63), 2**64 - 1),
        str: st.text(max_size=40),
        bytes: st.binary(max_size=70),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if kind in simple:
        return simple[kind]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    parts = [each for each in get_args(kind) if each is not Ellipsis]
    if Ellipsis in get_args(kind):
        return st.lists(drawn(*parts), max_size=4).map(tuple)
    if getattr(kind, "__origin__", None) is tuple:
        return st.tuples(*map(drawn, parts))
    return st.one_of(*map(drawn, parts))


any_command = st.one_of(*(drawn(kind) for kind in get_args(ServerCommand)))


@given(any_command)
def test_command_round_trips(command):
    again = decode_own(encode(command))
    assert again == command
    assert type(again) is type(command)
    assert repr(again) == repr(command)
    assert encode(again) == encode(command)


@given(any_command, st.data())
def test_truncated_or_extended_command_is_rejected(command, data):
    raw = encode(command)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    longer = raw + data.draw(st.binary(min_size=1, max_size=9))
    for damaged in (cut, longer):
        with pytest.raises(LogDamagedError):
            decode_own(damaged)


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_every_truncation_of_each_kind_is_rejected(command):
    raw = encode(command)
    for length in range(len(raw)):
        with pytest.raises(LogDamagedError):
            decode_own(raw[:length])


@given(st.binary(max_size=200))
@example(msgspec.msgpack.encode([1, "?"]).replace(b"?", b"\xff"))
def test_arbitrary_bytes_decode_or_are_rejected(tail):
    for kind in range(128, 256):
        try:
            command = decode_own(bytes((kind,)) + tail)
        except LogDamagedError:
            continue
        assert type(command) in SERVER


@pytest.mark.parametrize("kind", sorted({*range(256)} - {kind.KIND for kind in SERVER}))
def test_unknown_kind_is_rejected(kind):
    raw = bytes((kind,)) + encode(COMMANDS[0])[1:]
    with pytest.raises(LogDamagedError, match=f"unknown command kind {kind}$"):
        decode_own(raw)


def test_empty_bytes_are_rejected():
    with pytest.raises(LogDamagedError):
        decode_own(b"")


# ----- invalid fields ------------------------------------------------------------------------


def packed(command, change):
    """Return the bytes of a command after a change to its list of fields."""
    fields = msgspec.msgpack.decode(encode(command)[1:])
    change(fields)
    return encode(command)[:1] + msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_wrong_number_or_type_of_fields_is_rejected(command):
    def wrong(fields):
        fields[0] = "now"

    def few(fields):
        del fields[1:]

    for change in (wrong, few, lambda fields: fields.append(1)):
        with pytest.raises(LogDamagedError, match=f"a command of kind {command.KIND} cannot be"):
            decode_own(packed(command, change))


def test_missing_new_field_decodes_to_its_default():
    command = DescribeMarket(now_ms=NOW_MS, market="rain", question="?", description="old")
    older = decode_own(packed(command, lambda fields: fields.pop()))
    assert older == msgspec.structs.replace(command, description="")


@pytest.mark.parametrize("command", [COMMANDS[1], COMMANDS[6]], ids=named)
def test_extra_nested_field_is_rejected(command):
    with pytest.raises(LogDamagedError):
        decode_own(packed(command, lambda fields: fields[1].append(1)))


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_undecodable_field_values_are_not_encoded(command):
    for name in command.__struct_fields__:
        with pytest.raises(TypeError):
            encode(msgspec.structs.replace(command, **{name: 1.5}))


@pytest.mark.parametrize("what", [None, 7, b"\x80", Budgets(), KEY, Expire, ()])
def test_encode_rejects_values_that_are_not_commands(what):
    with pytest.raises(TypeError, match="expected a command; got "):
        encode(what)
