"""SpecAugment masks the widths it is given, within the recording, at random positions of each."""

import torch

from porism.tasks.speech.data.augment import mask_frequencies, mask_times, random_spans


def test_bands_hide_whole_channels_and_never_too_many() -> None:
    torch.manual_seed(1)
    masked = mask_frequencies(torch.ones(200, 7, 63), masks=1, widest=5) == 0
    assert torch.equal(masked, masked[:, :1].expand_as(masked))
    widths = masked[:, 0].sum(1)
    assert set(widths.tolist()) == {0, 1, 2, 3, 4, 5}
    # One band is one stretch.
    assert int(masked[:, 0].int().diff(dim=1).abs().sum(1).max()) <= 2
    assert masked[:, 0].any(0).all()


def test_moments_hide_a_share_of_each_recording() -> None:
    torch.manual_seed(1)
    lengths = torch.tensor([63, 20, 7, 1]).repeat(100)
    masked = mask_times(torch.ones(400, 63, 2), lengths, masks=1, share=0.2) == 0
    assert torch.equal(masked[..., 0], masked[..., 1])
    widths = masked[..., 0].sum(1).view(100, 4)
    assert widths.max(0).values.tolist() == [12, 4, 1, 0]
    assert not (masked[..., 0] & (torch.arange(63) >= lengths[:, None])).any()


def test_several_masks_hide_more() -> None:
    torch.manual_seed(1)
    sizes, widest = torch.full((100,), 63), torch.full((100,), 6)
    one, three = (random_spans(sizes, 63, count, widest).float().mean() for count in (1, 3))
    assert three > 2 * one
