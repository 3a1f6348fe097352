"""The chain watcher: reads logs and balances, and finds the causes of failed settlements."""
