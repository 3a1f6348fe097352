"""The description of the HTTP interface: what each route takes, answers and is refused for.

A file for each part says it in a table by the names of the routes, ``DESCRIBED``; the document is
put together from these tables, the routes, the structs of the bodies and the table of codes.
"""

from clob_server.http.openapi.document import DESCRIBED, document

__all__ = ["DESCRIBED", "document"]
