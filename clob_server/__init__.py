"""The server over clob: an adapter with a clock, sockets and files. It uses public names alone."""
