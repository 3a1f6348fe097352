"""A packaged sample day, and the generator of synthetic order flow."""
