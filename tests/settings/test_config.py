"""Settings: what exists is valid, and what is refused says why."""

import math
from dataclasses import fields, is_dataclass

import pytest

from omnidraft.errors import SettingsError
from omnidraft.settings.config import (
    AppSettings,
    CacheSettings,
    SamplingSettings,
    changed,
    describe,
    from_dict,
    value_of,
)

SETTINGS = describe(AppSettings)
GROUPS = {f.name: type(value) for f in fields(AppSettings) if is_dataclass(value := getattr(AppSettings(), f.name))}


def test_every_field_of_every_class_is_described_by_one_line():
    named = {f"{group}.{f.name}" for group, cls in GROUPS.items() for f in fields(cls)}
    named |= {f.name for f in fields(AppSettings) if f.name not in GROUPS}
    assert {s.name for s in SETTINGS} == named
    for setting in SETTINGS:
        assert setting.help.endswith(".")
        assert "\n" not in setting.help
        assert value_of(AppSettings(), setting.name) == setting.default


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.rule.kind in ("integer", "number")], ids=lambda s: s.name)
def test_numbers_are_accepted_at_their_bounds_and_refused_beyond(setting):
    low, high = setting.rule.low, setting.rule.high
    for value in (low, high, *setting.rule.also):
        if setting.name == "cache.capacity" and value > 4096:
            continue  # its bound depends on the unit, tested below
        assert value_of(changed(AppSettings(), **{setting.name: value}), setting.name) == value
    beyond = (low - 1, high + 1) if setting.rule.kind == "integer" else (low - 1, math.nextafter(high, math.inf))
    for value in beyond:
        if value in setting.rule.also:
            continue
        with pytest.raises(SettingsError) as error:
            changed(AppSettings(), **{setting.name: value})
        assert setting.name in str(error.value)
        assert repr(value) in str(error.value)
        assert setting.rule.accepted in str(error.value)


WRONG = (True, "1", None, math.nan, math.inf, -math.inf, 1.5, [], {}, b"1", 10**400, 10**6000, object(), ("a = b",), "")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_wrong_types_are_refused_with_one_sentence_naming_the_setting(setting):
    accepted = {
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool) and v <= setting.rule.high,
        "number": lambda v: isinstance(v, float) and math.isfinite(v) and v <= setting.rule.high,
        "switch": lambda v: isinstance(v, bool),
        "choice": lambda v: False,
        "text": lambda v: isinstance(v, str) and v != "",
        "texts": lambda v: isinstance(v, (list, tuple)) and not (v and setting.name == "allowed_origins"),
    }[setting.rule.kind]
    for value in WRONG:
        if accepted(value) or (value is None and setting.rule.optional):
            changed(AppSettings(), **{setting.name: value})
            continue
        with pytest.raises(SettingsError) as error:
            changed(AppSettings(), **{setting.name: value})
        assert setting.name in str(error.value)
        assert len(str(error.value)) < 300
        assert "\n" not in str(error.value)


def test_stop_accepts_a_list_and_keeps_a_tuple():
    assert SamplingSettings(stop=["\n\n", "User:"]).stop == ("\n\n", "User:")
    with pytest.raises(SettingsError, match=r"sampling\.stop"):
        SamplingSettings(stop="a single text would be read letter by letter")
    with pytest.raises(SettingsError):
        SamplingSettings(stop=[""])


def test_a_cache_counted_in_megabytes_has_its_own_bound():
    CacheSettings(capacity=4096, unit="MB")
    CacheSettings(capacity=20_000, unit="entries")
    with pytest.raises(SettingsError, match=r"cache\.capacity is 20000.*4,096"):
        CacheSettings(capacity=20_000, unit="MB")


def test_unknown_names_are_left_out_with_a_warning_each():
    settings, warnings = from_dict(AppSettings, {"colour": 1, "sampling": {"top_k": 5, "topp": 0.5}})
    assert settings == changed(AppSettings(), **{"sampling.top_k": 5})
    assert len(warnings) == 2
    assert "colour" in warnings[0]
    assert "sampling.topp" in warnings[1]
    with pytest.raises(SettingsError, match="colour"):
        changed(AppSettings(), colour=1)
    with pytest.raises(SettingsError, match="sampling"):
        from_dict(AppSettings, {"sampling": 3})


def test_no_number_is_a_negative_zero():
    assert math.copysign(1, changed(AppSettings(), **{"sampling.temperature": -0.0}).sampling.temperature) == 1
