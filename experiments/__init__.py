"""Tables and figures of the papers as data, and what runs and reports them."""
