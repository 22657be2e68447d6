"""The page a run leaves behind: what was found, how sure it is, and how to get it again.

One self-contained HTML file: inline style, inline SVG, no scripts, nothing fetched from anywhere.
"""
