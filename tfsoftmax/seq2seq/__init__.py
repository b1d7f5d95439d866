"""Models that turn a text into another one, and the measures of what they write."""
