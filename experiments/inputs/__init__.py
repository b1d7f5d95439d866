"""Programs that write what experiments read: trees, models, lists, and data of others."""
