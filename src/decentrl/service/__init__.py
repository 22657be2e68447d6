"""The service: runs over HTTP, for programs, for OpenRefine and for people with a browser.

It needs the extra ``serve`` (fastapi, uvicorn). ``app`` puts it together, ``server`` runs it.
"""
