"""Comparison of a replay with the fills and best prices that the venue recorded."""
