"""Readers: one module for each format, each giving a :class:`~clob.replay.io.streams.Stream`."""
