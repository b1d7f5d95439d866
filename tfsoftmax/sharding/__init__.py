"""Vocabularies whose rows several replicas divide, their checkpoints, and workers."""
