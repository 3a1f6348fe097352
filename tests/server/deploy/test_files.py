"""Files of the deployment: versions of packages, settings, the steps of the image."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from clob_server.cli.options import read_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required(extra):
    """Return the requirements of an extra and of the extras that it names."""
    found = []
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "clob":
            found += [each for name in requirement.extras for each in required(name)]
        else:
            found.append(requirement)
    return found


def test_constraints_pin_every_package_within_its_bounds():
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for requirement in [
        *map(Requirement, PROJECT["dependencies"]),
        *required("dev"),
        *required("bench"),
    ]:
        assert Version(pins[requirement.name.lower()]) in requirement.specifier, requirement


def test_sample_of_settings_is_a_valid_production():
    lines = (DEPLOY / "server.env.example").read_text().splitlines()
    environ = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    settings = read_settings({}, environ)
    assert settings.environment == "production"
    assert settings.public_url == "https://exchange.example"


def test_image_copies_what_the_build_reads_and_runs_without_rights():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]
    copied = [
        source
        for step, rest in steps
        if step == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    ]
    assert all((ROOT / source).exists() for source in copied)
    assert {"pyproject.toml", "setup.py", "clob", "clob_server", PROJECT["readme"]} <= {*copied}
    assert [rest for step, rest in steps if step == "USER"] == ["clob"]
    assert re.search(r"^HEALTHCHECK", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("compose.yaml", "server"),
        ("compose.yaml", "caddy"),
        ("cluster.yaml", "log"),
        ("cluster.yaml", "node"),
    ],
)
def test_container_has_a_read_only_root(file, name):
    services = re.split(r"^  (\w+):$", (DEPLOY / file).read_text(), flags=re.MULTILINE)
    text = services[services.index(name) + 1]
    assert "read_only: true" in text
    assert "cap_drop: [ALL]" in text


def test_container_of_a_node_has_valid_settings():
    text = (DEPLOY / "cluster.yaml").read_text()
    given = dict(re.findall(r"^      (CLOB_\w+): (.+)$", text, re.MULTILINE))
    machine = {"LOG_SERVERS": "nats://10.0.0.1:4222", "NODE_NAME": "a", "NODE_ADDRESS": "10.0.0.1"}
    for name, value in machine.items():
        given = {key: re.sub(rf"\${{{name}[^}}]*}}", value, each) for key, each in given.items()}
    environ = {key: each.strip('"') for key, each in given.items()}
    settings = read_settings({"chain": "none"}, environ)
    assert (settings.log, settings.node) == (("nats://10.0.0.1:4222",), "a")
    assert (settings.node_url, settings.node_port) == ("http://10.0.0.1:8000", 8100)
    assert settings.node_count == 3
    image = (DEPLOY / "Dockerfile").read_text()
    assert "cluster" in re.search(r"'\.\[([a-z,]+)\]'", image).group(1)
