"""Several nodes over one replicated log: roles, takeover, and requests sent on to the owner."""
