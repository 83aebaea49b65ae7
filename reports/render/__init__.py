"""From results to HTML and PDF, both from the same templates."""
