"""Pages of docs/reference: what the code declares, written into Markdown."""
