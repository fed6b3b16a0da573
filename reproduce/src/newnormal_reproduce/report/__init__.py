"""How results are written: Markdown pages, figures, and one HTML page."""
