"""How the worker is asked for the news: lists of any length, in lines that it can read."""

import pytest

from clob.units import UINT256_MAX
from clob_server.chain.messages import LINE_BYTES_MAX, encode, read_asked
from clob_server.chain.worker_client import NAMES_MAX, Talk

HASH = f"0x{'ab' * 32}"


@pytest.fixture
def said():
    """What was said."""
    return []


@pytest.fixture
def talk(said):
    """A conversation of which every line is read as the worker would."""

    def send(message):
        line = encode(message)
        assert len(line) < LINE_BYTES_MAX
        said.append(read_asked(line))

    return Talk(send=send, check=lambda: None, ended=lambda _: None)


def names(count):
    """As many wallets, and as many tokens, all as long as they can be."""
    wallets = [f"0x{number:040X}" for number in range(count)]
    return wallets, [str(UINT256_MAX - number) for number in range(count)]


@pytest.mark.parametrize(
    ("num_wallets", "num_tokens", "num_messages"),
    [(0, 0, 1), (1, 2, 1), (NAMES_MAX, 0, 1), (NAMES_MAX + 1, 2, 2), (3, 2 * NAMES_MAX + 1, 3)],
)
def test_everything_is_said_and_the_last_message_says_so(
    talk, said, num_wallets, num_tokens, num_messages
):
    wallets, tokens = names(num_wallets)[0], names(num_tokens)[1]
    talk.watch(7, HASH, wallets, tokens)
    assert len(said) == num_messages
    assert [each for message in said for each in message.wallets] == wallets
    assert [each for message in said for each in message.tokens] == tokens
    assert {(message.after_block, message.block_hash) for message in said} == {(7, HASH)}
    assert [message.more for message in said] == [True] * (num_messages - 1) + [False]


def test_more_tokens_are_said_in_as_many_messages_as_it_takes(talk, said):
    tokens = names(NAMES_MAX + 1)[1]
    talk.look_at(tokens)
    assert [each for message in said for each in message.tokens] == tokens
    assert len(said) == 2
