"""Zachary's karate club: who of 34 members met outside the club, and with whom each went when it split.

W. W. Zachary, An Information Flow Model for Conflict and Fission in Small Groups, Journal of Anthropological Research
33 (1977), figure 1 and table 1. Member 1 is Mr. Hi, the instructor, member 34 John A., the officer: only these
two are labelled. The others follow from whom they met, so that the features are one-hot.
"""

import torch

from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.graphs.data.labelled_graph import LabelledGraph

MEETS = {
    1: (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 18, 20, 22, 32),
    2: (3, 4, 8, 14, 18, 20, 22, 31),
    3: (4, 8, 9, 10, 14, 28, 29, 33),
    4: (8, 13, 14),
    5: (7, 11),
    6: (7, 11, 17),
    7: (17,),
    9: (31, 33, 34),
    10: (34,),
    14: (34,),
    15: (33, 34),
    16: (33, 34),
    19: (33, 34),
    20: (34,),
    21: (33, 34),
    23: (33, 34),
    24: (26, 28, 30, 33, 34),
    25: (26, 28, 32),
    26: (32,),
    27: (30, 34),
    28: (34,),
    29: (32, 34),
    30: (33, 34),
    31: (33, 34),
    32: (33, 34),
    33: (34,),
}
"""A member's acquaintances with a higher number than his own, as Zachary numbers them: from 1 on."""
WITH_MR_HI = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20, 22)
MEMBERS = 34


def karate() -> LabelledGraph:
    """The club, its members numbered from 0 on. Of the 32 that are not labelled, every fourth validates."""
    pairs = torch.tensor([(one - 1, other - 1) for one, others in MEETS.items() for other in others]).T
    labels = torch.ones(MEMBERS, dtype=torch.int64)
    labels[torch.tensor(WITH_MR_HI) - 1] = 0
    others = torch.arange(1, MEMBERS - 1)
    return LabelledGraph(
        name="karate",
        graph=Graph(torch.cat([pairs, pairs.flip(0)], 1), num_nodes=MEMBERS),
        features=SparseFeatures.from_dense(torch.eye(MEMBERS)),
        labels=labels,
        classes=("Mr. Hi", "the officer"),
        splits={
            "train": torch.tensor([0, MEMBERS - 1]),
            "valid": others[others % 4 == 0],
            "test": others[others % 4 != 0],
        },
        split_name="one label a class",
    )
