"""From what was heard to a text: the likeliest symbol each time, CTC alone, or a beam of beginnings.

No text has more symbols than its recording has states, and none is longer than the recipe's `longest`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from porism.tasks.speech.data.symbols import PAD, START, STOP
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.ctc import Beginnings, Prefixes, merged
from porism.tasks.speech.model.decoders import Decoder, State
from porism.tasks.speech.model.encoder import Heard

IMPOSSIBLE = -1e30


@dataclass(frozen=True)
class Search:
    """How texts are looked for.

    >>> heard = model.encoder(features, lengths)
    >>> Search("beam", beam=8, ctc=0.3)(model, heard)       # the symbols of each, without start and stop
    """

    kind: Literal["greedy", "ctc", "beam"] = "greedy"
    beam: int = 8
    """Beginnings that are kept."""
    ctc: float = 0.0
    """Weight of CTC's score beside the decoder's."""
    bonus: float = 0.0
    """Added to the score for every symbol, against texts that stop too early."""

    def __call__(self, model: SpeechModel, heard: Heard) -> list[list[int]]:
        if self.kind == "ctc":
            signs = torch.tensor([START, STOP], device=heard.states.device)
            return merged(model.ctc_chances(heard).index_fill(2, signs, IMPOSSIBLE).argmax(2), heard.lengths, PAD)
        if self.kind == "beam":
            return best_of_beam(model, heard, self)
        return greedy(model, heard)


def greedy(model: SpeechModel, heard: Heard) -> list[list[int]]:
    """The likeliest symbol each time, all recordings at once, each until it stops."""
    keys = model.decoder.look(heard)
    state: State | None = None
    limits = longest_texts(model, heard)
    tokens = torch.full_like(limits, START)
    said = []
    for place in range(int(limits.max()) + 1):
        decoded = model.decoder(tokens[:, None], keys, state)
        state = decoded.state
        best = without_signs(decoded.logits[:, -1]).argmax(1)
        tokens = torch.where(place >= limits, STOP, best)
        said.append(tokens)
        # Once a row has stopped it says nothing more.
        limits = torch.where(tokens == STOP, 0, limits)
        if not limits.any():
            break
    return until_stop(torch.stack(said, 1))


def best_of_beam(model: SpeechModel, heard: Heard, search: Search) -> list[list[int]]:
    """The best of `beam` beginnings that grow side by side.

    score = (1 - ctc) log P_decoder + ctc log P_ctc + bonus * symbols
    """
    B, K, device = len(heard.lengths), search.beam, heard.states.device
    scorers = [(1 - search.ctc, _ByDecoder(model.decoder, heard, K)), *_by_ctc(model, heard, search)]
    limits = longest_texts(model, heard).repeat_interleave(K)[:, None]
    first_rows = torch.arange(B, device=device)[:, None] * K
    said: Tensor | None = None
    score, stopped = torch.zeros(B * K, device=device), torch.zeros(B * K, dtype=torch.bool, device=device)
    for place in range(int(limits.max()) + 1):
        logs = sum((weight * scorer.next_scores() for weight, scorer in scorers), start=torch.zeros((), device=device))
        V = logs.shape[1]
        goes_on = torch.arange(V, device=device) != STOP
        logs = without_signs(logs) + search.bonus * (place + goes_on)
        logs = logs.masked_fill(goes_on & (place >= limits), IMPOSSIBLE)
        # What has stopped stays as it is.
        logs = torch.where(stopped[:, None], torch.where(goes_on, IMPOSSIBLE, score[:, None]), logs)
        if said is None:
            # All beginnings of a recording are the same yet: one of them grows.
            logs = logs.masked_fill(torch.arange(B * K, device=device)[:, None] % K > 0, IMPOSSIBLE)
        best, where = logs.view(B, K * V).topk(K, 1)  # B K
        rows, symbols = (where // V + first_rows).flatten(), (where % V).flatten()
        for _, scorer in scorers:
            scorer.choose(rows, symbols)
        said = symbols[:, None] if said is None else torch.cat([said[rows], symbols[:, None]], 1)
        score, stopped = best.flatten(), symbols == STOP
        # Scores only fall, so that nothing overtakes a text that is whole; a bonus may lift them.
        if stopped.all() or (search.bonus <= 0 and stopped.view(B, K)[:, 0].all()):
            break
    assert said is not None
    return until_stop(said.view(B, K, -1)[:, 0])


class _Scorer(Protocol):
    """Keeps R beginnings, K of each recording."""

    def next_scores(self) -> Tensor:
        """log P of each beginning with each symbol behind it, (R, V)."""

    def choose(self, rows: Tensor, symbols: Tensor) -> None:
        """Go on with these beginnings, each with a symbol more."""


class _ByDecoder:
    def __init__(self, decoder: Decoder, heard: Heard, beam: int) -> None:
        rows = torch.arange(len(heard.lengths), device=heard.lengths.device).repeat_interleave(beam)
        self.decoder = decoder
        self.keys = decoder.look(heard).select(rows)
        self.state: State | None = None
        self.last = torch.full_like(rows, START)
        self.scores = torch.zeros(len(rows), 1, device=rows.device)

    def next_scores(self) -> Tensor:
        decoded = self.decoder(self.last[:, None], self.keys, self.state)
        self.state = decoded.state
        self.scores = self.scores + decoded.logits[:, -1].float().log_softmax(1)
        return self.scores

    def choose(self, rows: Tensor, symbols: Tensor) -> None:
        assert self.state is not None
        self.state = tuple(x[rows] for x in self.state)
        self.scores, self.last = self.scores[rows, symbols][:, None], symbols


class _ByCtc:
    def __init__(self, model: SpeechModel, heard: Heard, beam: int) -> None:
        chances = model.ctc_chances(heard).repeat_interleave(beam, 0)
        self.prefixes = Prefixes(chances, heard.lengths.repeat_interleave(beam), PAD)
        self.beginnings = self.prefixes.start()

    def next_scores(self) -> Tensor:
        scores = self.prefixes.next_scores(self.beginnings)
        # A text that stops is whole.
        scores[:, STOP] = scores[:, PAD]
        return scores

    def choose(self, rows: Tensor, symbols: Tensor) -> None:
        # Beginnings of one recording share its states, so that these need no choosing.
        kept = Beginnings(*(x[rows] for x in self.beginnings))
        self.beginnings = self.prefixes.grow(kept, symbols)


def _by_ctc(model: SpeechModel, heard: Heard, search: Search) -> list[tuple[float, _Scorer]]:
    return [(search.ctc, _ByCtc(model, heard, search.beam))] if search.ctc else []


def without_signs(scores: Tensor) -> Tensor:
    """No start and no padding is ever said."""
    return scores.index_fill(1, torch.tensor([START, PAD], device=scores.device), IMPOSSIBLE)


def longest_texts(model: SpeechModel, heard: Heard) -> Tensor:
    """Most symbols of each recording's text, (B,)."""
    return heard.lengths.clamp(max=model.recipe.max_target_length)


def until_stop(said: Tensor) -> list[list[int]]:
    """
    >>> until_stop(torch.tensor([[7, 8, STOP, 9]]))
    [[7, 8]]
    """
    return [row[: row.index(STOP)] if STOP in row else row for row in said.tolist()]
