"""Language models: their configuration, exact evaluation, scores and generated text."""
