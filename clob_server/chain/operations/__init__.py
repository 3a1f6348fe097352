"""Operations of the operator on the chain, one module for each kind."""
