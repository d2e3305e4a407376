"""The addresses of the server, a file for each part of the page."""
