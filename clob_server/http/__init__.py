"""HTTP: endpoints, routes and the OpenAPI document."""
