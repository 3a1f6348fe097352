"""Simulated trading of one strategy: orders, latency, fees, portfolio, views of the market."""
