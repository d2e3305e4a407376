"""What people call from Python, and the command line and the web page too: porism.train, load, compare and cost."""
