"""The transport between sockets and ASGI: uvicorn with the protections of a public server.

Adds limits and deadlines of connections, rejections with a problem body, replies in one write, and
WebSockets that a feed writes to without waiting.
"""
