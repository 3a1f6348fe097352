"""The chain worker process: setup, operations and the connection to the server."""
