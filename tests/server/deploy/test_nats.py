"""The configuration of the servers of a replicated log, as nats-server reads it."""

import contextlib
import os
import subprocess
from pathlib import Path

from clob_server.log import FrameStream
from tests.server.log.nats_servers import END_S, free_ports, has_jetstream, require_nats, wait_until

CONFIG = Path(__file__).parents[3] / "deploy/nats.conf"
PORTS = ("4222", "8222", "6222")


def test_three_servers_with_the_configuration_store_a_log(tmp_path):
    path, text = require_nats(), CONFIG.read_text()
    ports = [free_ports(3) for _ in range(3)]
    with contextlib.ExitStack() as stack:
        for number, own in enumerate(ports):
            config = text.replace("/var/lib/nats", str(tmp_path / f"data{number}"))
            for other, (*_, route) in enumerate(ports):
                config = config.replace(f"10.0.0.{other + 1}:6222", f"127.0.0.1:{route}")
            for default, port in zip(PORTS, own, strict=True):
                config = config.replace(f"0.0.0.0:{default}", f"127.0.0.1:{port}")
            (tmp_path / f"{number}.conf").write_text(config)
            server = subprocess.Popen(
                [path, "-c", str(tmp_path / f"{number}.conf")],
                env=os.environ | {"NATS_NAME": f"n{number}"},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(server.wait, END_S)
            stack.callback(server.kill)
        monitors = [f"http://127.0.0.1:{port}" for _, port, _ in ports]
        for monitor in monitors:
            wait_until(lambda monitor=monitor: has_jetstream(monitor))
        stream = FrameStream(
            [f"nats://127.0.0.1:{port}" for port, *_ in ports],
            monitors=monitors,
        )
        stack.callback(stream.close)
        assert stream.append(b"\0" * 5_000_000, 1, 1, 0) == 1
        assert stream.extent() == (1, 1)
