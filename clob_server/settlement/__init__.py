"""Settlement of trades on the chain, and markets that settle."""
