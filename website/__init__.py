"""What the documentation site is made with, besides the pages in docs/: see mkdocs.yml."""
