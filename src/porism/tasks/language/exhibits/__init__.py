"""None: a language model is shown by what it writes, in the samples of its run."""
