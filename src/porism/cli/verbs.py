"""The verbs of the command line, and what `porism --help` says."""

VERBS = {
    "train": "train a model, evaluate it, write a report",
    "compare": "the same for several recipes, in one report",
    "sweep": "search over fields of a recipe: grid, random or TPE, on one machine or many",
    "evaluate": "measure a trained model on a split",
    "predict": "let a trained model answer",
    "recipes": "what can be trained: recipes, their fields and values",
    "runs": "what was trained, and what came of it",
    "report": "one HTML page from one or more runs",
    "serve": "the page: costs, patterns, models, comparisons and the ledger in a browser",
    "data": "the data sets porism knows, and where they lie",
    "cost": "the closed formula of a layer, or of any module you bring",
    "check": "decide by machine: gradients, kernels, and the ledger of claims",
    "bench": "measure against others, each benchmark a question",
    "completion": "completion of commands for bash, zsh or fish",
}
"""Each verb is the module of its name, which holds a dataclass such as TrainCommand with a method `run`."""

EXAMPLES = """\
examples:
  porism train language                          the small recurrent net on the embedded text
  porism compare language elman lstm             two models, one table, one report
  porism train language table-02 --data ptb/     a published recipe on your copy of the data
  porism cost torch.nn:LSTM --with "50, 100" --input "T B D"
  porism predict runs/language-elman "a function is"
"""


def overview() -> str:
    """The help of the whole command line."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        f"usage: porism VERB ...\n\n"
        f"Neural architectures with their gradients, their costs and the tasks they learn.\n\n{verbs}\n\n"
        f"Every verb explains itself with --help and takes --json: then the last line of standard output is one JSON\n"
        f"object, and all else goes to standard error. --debug shows where an error came from.\n\n{EXAMPLES}"
    )
