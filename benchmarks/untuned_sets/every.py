"""All sets of data, task by task."""

from untuned_sets import graphs, images, sentiment, speech, supervised, texts
from untuned_sets.data_set import DataSet

SETS: list[DataSet] = [
    *(*texts.SETS, *images.SETS, *graphs.SETS),
    *(*sentiment.SETS, *supervised.SETS, *speech.SETS),
]
