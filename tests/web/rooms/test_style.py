"""The style sheets: contrast of every colour in both themes, which axe leaves undecided for text in SVG."""

import re

import pytest
from tests.web.rooms.conftest import LOOK, STATIC, TEMPLATES

COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", LOOK.read_text(encoding="utf-8")
    )
}
TEXT = ["ink", "faint", *(f"series-{n}" for n in range(1, 13))]


def luminance(colour: str) -> float:
    """Of sRGB, as WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "shade"])
def test_text_has_a_contrast_of_four_and_a_half(theme: int, ground: str) -> None:
    found = {name: round(contrast(COLOURS[name][theme], COLOURS[ground][theme]), 2) for name in TEXT}
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_edges_of_controls_have_a_contrast_of_three(theme: int) -> None:
    assert contrast(COLOURS["edge"][theme], COLOURS["paper"][theme]) >= 3


def test_no_markup_has_a_style_or_a_script_of_its_own_and_no_sheet_a_colour_of_its_own() -> None:
    """The policy forbids the first two; a colour outside of look.css would escape the tests above."""
    for template in TEMPLATES.glob("*.html"):
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\sstyle=|\son\w+=|https?://", text), template.name
    for sheet in STATIC.glob("*.css"):
        assert not re.search(r"#[0-9a-f]{3,8}\b|rgb\(|hsl\(", sheet.read_text(encoding="utf-8")), sheet.name
    for script in STATIC.glob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), script.name
