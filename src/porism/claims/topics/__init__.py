"""One module a topic, each with its CLAIMS."""
