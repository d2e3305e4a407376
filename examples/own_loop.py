"""Porism's layers in a training loop of your own: a sigmoid Elman net that learns to count in a circle.

python examples/own_loop.py
"""

import torch
from torch import nn

from porism import Elman, Readout

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
T, B, D, H, V = 20, 8, 16, 32, len(WORDS)


def main(steps: int = 200) -> float:
    """Train, say what was learned, and return the last loss."""
    torch.manual_seed(0)
    embedding, net, readout = nn.Embedding(V, D), Elman(D, H), Readout(H, V)
    parameters = [*embedding.parameters(), *net.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(steps):
        start = torch.randint(V, (B,))
        tokens = (torch.arange(T + 1)[:, None] + start) % V  # T+1 B
        states, _ = net(embedding(tokens[:-1]))  # T B D -> T B H
        loss = readout.loss(states, tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    states, _ = net(embedding(torch.tensor([[WORDS.index("six")]])))
    print(f"loss {loss.item():.4f}; after six comes {WORDS[int(readout(states).argmax())]}")
    return loss.item()


if __name__ == "__main__":
    main()
