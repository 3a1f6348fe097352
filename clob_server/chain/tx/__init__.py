"""Transactions of the operator: outbox, gas, sending, tracking to confirmation."""
