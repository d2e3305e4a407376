"""The LSTM decoder: embedding, norm, one LSTM; its state is all that it knows of the symbols so far."""

from torch import Tensor, nn

from porism.tasks.speech.decoder import Decoder, State
from porism.tasks.speech.recipes import SpeechRecipe


class RecurrentDecoder(Decoder):
    def build_reader(self, recipe: SpeechRecipe) -> None:
        self.embedding_norm = nn.LayerNorm(recipe.hidden)
        self.lstm = nn.LSTM(recipe.hidden, recipe.hidden, batch_first=True)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        x = self.drop(self.embedding_norm(self.embedding(tokens)))
        # torch keeps the layers of a state in front of its batch.
        before = (
            None if state is None else (state[0].transpose(0, 1).contiguous(), state[1].transpose(0, 1).contiguous())
        )
        h, (hidden, cell) = self.lstm(x, before)
        return self.drop(h), (hidden.transpose(0, 1), cell.transpose(0, 1))
