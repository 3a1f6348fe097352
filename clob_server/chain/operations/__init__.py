"""What the operator does on the chain for others, each kind of operation in a module of its own."""
