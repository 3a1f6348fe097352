"""The OpenAPI document of the HTTP interface.

Each part of the interface has a table ``DESCRIBED`` by route name. The document combines these
tables with the routes, the structs of the bodies and the table of codes.
"""

from clob_server.http.openapi.document import DESCRIBED, document

__all__ = ["DESCRIBED", "document"]
