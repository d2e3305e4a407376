"""SpecAugment hides what it says, within the recording, by another luck for each."""

import torch

from porism.tasks.speech.data.augment import hidden_bands, hidden_moments, spans


def test_bands_hide_whole_channels_and_never_too_many() -> None:
    torch.manual_seed(1)
    hidden = hidden_bands(torch.ones(200, 7, 63), masks=1, widest=5) == 0
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    widths = hidden[:, 0].sum(1)
    assert set(widths.tolist()) == {0, 1, 2, 3, 4, 5}
    # One band is one stretch.
    assert int(hidden[:, 0].int().diff(dim=1).abs().sum(1).max()) <= 2
    assert hidden[:, 0].any(0).all()


def test_moments_hide_a_share_of_each_recording() -> None:
    torch.manual_seed(1)
    lengths = torch.tensor([63, 20, 7, 1]).repeat(100)
    hidden = hidden_moments(torch.ones(400, 63, 2), lengths, masks=1, share=0.2) == 0
    assert torch.equal(hidden[..., 0], hidden[..., 1])
    widths = hidden[..., 0].sum(1).view(100, 4)
    assert widths.max(0).values.tolist() == [12, 4, 1, 0]
    assert not (hidden[..., 0] & (torch.arange(63) >= lengths[:, None])).any()


def test_several_masks_hide_more() -> None:
    torch.manual_seed(1)
    sizes, widest = torch.full((100,), 63), torch.full((100,), 6)
    one, three = (spans(sizes, 63, count, widest).float().mean() for count in (1, 3))
    assert three > 2 * one
