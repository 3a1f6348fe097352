"""Route handlers of the HTTP interface, one module per part."""
