"""The chain watcher: logs, balances, and the reasons of failed settlements."""
