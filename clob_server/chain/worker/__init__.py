"""The chain worker: a process of its own that runs operations on the chain."""
