"""The parts of the suite, one for each subject of the contract."""

import pkgutil

import pytest

# Before they are imported, so that a failed assertion shows what was compared.
pytest.register_assert_rewrite(*(f"{__name__}.{part.name}" for part in pkgutil.iter_modules(__path__)))
