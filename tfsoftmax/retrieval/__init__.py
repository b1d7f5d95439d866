"""Two towers: items, hard negatives, indexes for the likeliest, and the export that serves them."""

from tfsoftmax.retrieval.export import export_retrieval

__all__ = ["export_retrieval"]
