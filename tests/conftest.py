"""What every test shares: how hard Hypothesis tries."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine is no defect, so no example has a deadline; CI replays the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
