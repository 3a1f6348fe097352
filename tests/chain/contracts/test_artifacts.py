"""The artifacts: that they are what the sources compile to, and that a wheel has them."""

import hashlib
import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from clob_server.chain.contracts import NAMES, artifact
from clob_server.chain.eth.accounts import ACCOUNTS

FOLDER = resources.files("clob_server.chain.contracts")
OURS = ("TestDollar", "WrappedCollateral", "Exchange")
INSTALLED = Path(__file__).parents[3] / "build" / "contracts"
HOST = ACCOUNTS[0].address
# https://eips.ethereum.org/EIPS/eip-170 and eip-3860
RUNTIME_BYTES_MAX = 24_576
CREATION_BYTES_MAX = 49_152


def written(name):
    """Give what is in the file of an artifact."""
    return json.loads(FOLDER.joinpath(f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_an_artifact_is_read(name):
    read = artifact(name)
    raw = written(name)
    assert read.name == name == raw["contractName"]
    assert list(read.abi) == raw["abi"]
    assert f"0x{read.creation.hex()}" == raw["bytecode"]
    assert f"0x{read.runtime.hex()}" == raw["deployedBytecode"]
    assert read.runtime in read.creation
    assert len(read.creation) <= CREATION_BYTES_MAX
    assert len(read.runtime) <= RUNTIME_BYTES_MAX


def test_a_contract_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"no contract 'package'; there are ConditionalTokens, "):
        artifact("package")


@pytest.mark.parametrize("name", OURS)
def test_an_artifact_was_made_from_the_sources_beside_it(name):
    beside = {file: told for file, told in written(name)["sources"].items() if "/" not in file}
    assert f"{name}.sol" in beside
    for file, told in beside.items():
        digest = hashlib.sha256(FOLDER.joinpath(file).read_bytes()).hexdigest()
        assert told == digest, "run `make contracts`"


def test_the_compilers_are_the_ones_that_are_pinned():
    pinned = json.loads(FOLDER.joinpath("package.json").read_bytes())["dependencies"]
    assert all(re.fullmatch(r"(npm:\w+@)?\d+\.\d+\.\d+", version) for version in pinned.values())
    compilers = [written(name)["compiler"]["version"].partition("+")[0] for name in OURS]
    assert compilers == [pinned["solc"]] * len(OURS)
    published = written("ConditionalTokens")["compiler"]["version"].partition("+")[0]
    assert published == pinned["solc-0.5"].rpartition("@")[2]


@pytest.mark.parametrize("name", ["NOTICE.txt", "LGPL-3.0.txt", "GPL-3.0.txt", "OpenZeppelin.txt"])
def test_the_licences_are_there(name):
    assert len(FOLDER.joinpath(name).read_text()) > 1_000


def test_what_lies_on_a_chain_is_the_runtime_code(world):
    evm, addresses = world
    for name, address in (
        ("ConditionalTokens", addresses.conditional_tokens),
        ("TestDollar", addresses.stablecoin),
        ("WrappedCollateral", addresses.collateral),
    ):
        code, runtime = evm.code(address), artifact(name).runtime
        assert len(code) == len(runtime)
        # Immutable values are zeros in the artifact.
        assert all(got == bare for got, bare in zip(code, runtime, strict=True) if bare)


@pytest.fixture(scope="module")
def installed():
    """Where npm has put the compilers; the test is skipped where it has not."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (INSTALLED / "node_modules").is_dir():
        pytest.skip("the compilers are not installed; `make compilers` does")
    return INSTALLED


@pytest.mark.long
def test_the_sources_compile_to_the_same_bytes(installed, tmp_path):
    build = str(FOLDER.joinpath("build.mjs"))
    subprocess.run(["node", build, str(installed), str(tmp_path)], check=True)
    for name in NAMES:
        again = tmp_path.joinpath(f"{name}.json").read_bytes()
        assert again == FOLDER.joinpath(f"{name}.json").read_bytes(), name
