"""Contract artifacts equal the compiled sources and are part of the package."""

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
    """Return the content of an artifact file."""
    return json.loads(FOLDER.joinpath(f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_artifact_is_read(name):
    read = artifact(name)
    raw = written(name)
    assert read.name == name == raw["contractName"]
    assert list(read.abi) == raw["abi"]
    assert f"0x{read.creation.hex()}" == raw["bytecode"]
    assert f"0x{read.runtime.hex()}" == raw["deployedBytecode"]
    assert read.runtime in read.creation
    assert len(read.creation) <= CREATION_BYTES_MAX
    assert len(read.runtime) <= RUNTIME_BYTES_MAX


def test_unknown_contract_is_rejected():
    with pytest.raises(ValueError, match=r"unknown contract 'package'; expected one of Cond"):
        artifact("package")


@pytest.mark.parametrize("name", OURS)
def test_artifacts_match_the_hashes_of_their_sources(name):
    beside = {file: result for file, result in written(name)["sources"].items() if "/" not in file}
    assert f"{name}.sol" in beside
    for file, result in beside.items():
        digest = hashlib.sha256(FOLDER.joinpath(file).read_bytes()).hexdigest()
        assert result == digest, "run `make contracts`"


def test_compiler_versions_are_pinned():
    pinned = json.loads(FOLDER.joinpath("package.json").read_bytes())["dependencies"]
    assert all(re.fullmatch(r"(npm:\w+@)?\d+\.\d+\.\d+", version) for version in pinned.values())
    compilers = [written(name)["compiler"]["version"].partition("+")[0] for name in OURS]
    assert compilers == [pinned["solc"]] * len(OURS)
    published = written("ConditionalTokens")["compiler"]["version"].partition("+")[0]
    assert published == pinned["solc-0.5"].rpartition("@")[2]


@pytest.mark.parametrize("name", ["NOTICE.txt", "LGPL-3.0.txt", "GPL-3.0.txt", "OpenZeppelin.txt"])
def test_licences_are_included(name):
    assert len(FOLDER.joinpath(name).read_text()) > 1_000


def test_deployed_code_equals_the_runtime_code(world):
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
    """Return the folder of the compilers; skip the test without them."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (INSTALLED / "node_modules").is_dir():
        pytest.skip("the compilers are not installed; run `make compilers`")
    return INSTALLED


@pytest.mark.long
def test_sources_compile_to_the_same_bytes(installed, tmp_path):
    build = str(FOLDER.joinpath("build.mjs"))
    subprocess.run(["node", build, str(installed), str(tmp_path)], check=True)
    for name in NAMES:
        second = tmp_path.joinpath(f"{name}.json").read_bytes()
        assert second == FOLDER.joinpath(f"{name}.json").read_bytes(), name
