"""Looks into a network: what its filters answer to, what its choices rest on, as a page for the browser."""
