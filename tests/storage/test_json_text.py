"""Whatever is wrong with a text is a ValueError."""

import pytest

from omnidraft.storage.files import read_json


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, b"\xff\xfe{", "1" * 5000])
def test_what_is_no_json_or_goes_too_deep_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        read_json(text)
