"""``python -m clob.replay.samples`` regenerates the packaged sample recording."""

from clob.replay.io.npz import write_npz
from clob.replay.samples.synthetic import SAMPLE_ORDERS, sample_path, synthetic_day

if __name__ == "__main__":
    write_npz(sample_path(), synthetic_day(orders=SAMPLE_ORDERS))
