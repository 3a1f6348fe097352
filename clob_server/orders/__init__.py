"""Orders over HTTP: place, cancel, preview, batches, permissions."""
