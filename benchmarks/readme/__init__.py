"""The tables of README.md, one file a part of the house: from what a benchmark left to lines of Markdown."""
