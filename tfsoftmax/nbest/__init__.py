"""Reads n-best lists, rescores them, and counts word errors."""
