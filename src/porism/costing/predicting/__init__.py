"""From counts to seconds and to memory: what a device can do, what a module needs, and where the bound is."""
