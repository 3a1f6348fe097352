"""Interfaces of other exchanges over the same engine, one package per exchange."""
