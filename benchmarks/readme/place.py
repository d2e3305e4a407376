"""Where something was measured."""

from typing import Any


def machine(result: dict[str, Any]) -> str:
    """Where it was measured, in words."""
    hardware, versions = result["hardware"], result["versions"]
    device = hardware["gpu"] or f"{hardware['threads']} threads of {hardware['cpu']}"
    return f"Measured on {device}, torch {versions['torch']}."
