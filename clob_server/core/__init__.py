"""The state of the server and the sequencer that logs and applies its commands."""
