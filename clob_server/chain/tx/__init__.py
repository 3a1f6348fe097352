"""The operator's transactions: outbox, nonces, signing, fees, receipts and replacement."""
