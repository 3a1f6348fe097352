"""Measures the package against what is possible and what one would write oneself; see README.md."""
