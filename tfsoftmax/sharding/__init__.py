"""Several devices: what replicas and workers tell each other, and vocabularies in shards."""
