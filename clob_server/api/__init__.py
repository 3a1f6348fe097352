"""Shared by every interface: problem documents, schemas of bodies, options of orders."""
