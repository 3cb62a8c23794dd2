"""What people describe with Pydantic: anything, unions, patterns, bounds, open objects, models inside each other."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Mood(StrEnum):
    good = "good"
    bad = "bad"


class Inner(BaseModel):
    kind: Literal["a", "b"]
    level: int = Field(ge=1, le=5)


class Whatever(BaseModel):
    any: Any
    many: list[Any] = Field(max_length=2)


class Unions(BaseModel):
    one: int | bool | None
    two: Inner | Literal["none"]
    three: list[Inner] = Field(min_length=1, max_length=2)


class Patterns(BaseModel):
    digits: str = Field(pattern=r"^\d{3}-\d$")
    words: str = Field(pattern=r"^\w{1,4}\s\w{1,4}\.$")
    short: str = Field(min_length=2, max_length=5)


class Bounds(BaseModel):
    whole: int = Field(ge=-3, lt=40)
    part: float = Field(gt=0, le=2)
    choice: Mood


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0
    b: bool


class Tree(BaseModel):
    leaf: bool
    below: Tree | None = None


MODELS = [Whatever, Unions, Patterns, Bounds, Open, Tree]
