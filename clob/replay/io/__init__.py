"""Recordings: file formats, numbers in text, and the stream of events that readers produce."""
