"""Pictures as models get them: rows of RGB pixels, read from files that anybody may have made.

What a file says of its size is believed only to refuse it, before anything is decoded. Knows no model.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from omnidraft.errors import PictureError
from omnidraft.format import size

MOST_BYTES = 20_000_000
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 2048  # pixels; no projector looks closer, and its own resizing takes memory
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_JPEG = b"\xff\xd8"
_KINDS = "a PNG, JPEG, WebP, GIF or BMP picture"


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """digest: SHA-256 of size and pixels, in hexadecimal; pixels: width x height x (red, green, blue), by rows."""

    digest: str
    width: int
    height: int
    pixels: bytes


def open_picture(path: str | Path) -> Picture:
    """The picture in a file; PictureError in one sentence."""
    try:
        with Path(path).expanduser().open("rb") as file:
            return read_picture(file.read(MOST_BYTES + 1), str(path))
    except OSError as error:
        raise PictureError(f"{path} cannot be read ({error.strerror}).") from None


def read_picture(data: bytes, name: str = "The picture") -> Picture:
    """The picture in these bytes, upright, on white where it is transparent, the first one where it moves."""
    if not data:
        raise PictureError(f"{name} is empty.")
    if len(data) > MOST_BYTES:
        raise PictureError(f"{name} has more than {size(MOST_BYTES)}; save it smaller.")
    if data.lstrip()[:1] == b"<":
        raise PictureError(f"{name} is a drawing or a page in XML, not {_KINDS}; save it as PNG.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow warns of is refused below
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
        with image:
            if image.width * image.height > MOST_PIXELS:
                raise PictureError(
                    f"{name} has {image.width:,} x {image.height:,} pixels, more than {MOST_PIXELS:,}; save it smaller."
                )
            return _made(image)
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(f"{name} has far more than {MOST_PIXELS:,} pixels; save it smaller.") from None
    except Image.UnidentifiedImageError:
        raise PictureError(f"{name} is not {_KINDS}.") from None
    except Exception:  # a decoder of foreign bytes fails in every way there is
        raise PictureError(f"{name} is damaged.") from None


def to_keep(data: bytes, name: str) -> bytes:
    """The same picture as a file to keep: as models get it, without what cameras write beside it. Photos stay JPEG,
    all else is PNG."""
    image = _image(read_picture(data, name))
    made = io.BytesIO()
    image.save(made, "JPEG" if data.startswith(_JPEG) else "PNG", quality=92)
    return made.getvalue()


def thumbnail(data: bytes, side: int) -> bytes:
    """A small JPEG of a picture, at most `side` pixels wide and high."""
    image = _image(read_picture(data))
    image.thumbnail((side, side))
    made = io.BytesIO()
    image.save(made, "JPEG")
    return made.getvalue()


def media_type(data: bytes) -> str:
    """Of what `to_keep` made."""
    return "image/jpeg" if data.startswith(_JPEG) else "image/png"


def _image(picture: Picture) -> Image.Image:
    return Image.frombytes("RGB", (picture.width, picture.height), picture.pixels)


def _made(image: Image.Image) -> Picture:
    image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # JPEG decodes no more than is needed
    turned = ImageOps.exif_transpose(image)
    flat = _on_white(turned)
    flat.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    pixels = flat.tobytes()
    digest = hashlib.sha256(f"{flat.width} {flat.height} ".encode() + pixels).hexdigest()
    return Picture(digest, flat.width, flat.height, pixels)


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits of grey
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")


# Ids that stand for pictures in a prompt: one for every row that a picture takes in a KV cache. They lie beyond every
# vocabulary. Each stretch of a picture has a range of its own, so prompts that agree in a picture's first id agree in
# all of it, and common beginnings never end inside one. Knows nothing of what is in a picture.


FIRST = 1 << 30


def until_picture(ids: Sequence[int]) -> Sequence[int]:
    """What of `ids` stands before the first picture."""
    return ids[: next((at for at, id in enumerate(ids) if id >= FIRST), len(ids))]


def pictures_end(ids: Sequence[int]) -> int:
    """How much of `ids` stands up to the end of the last picture; 0 where there is none."""
    return next((at + 1 for at in range(len(ids) - 1, -1, -1) if ids[at] >= FIRST), 0)


def steps(ids: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """`ids` as passes may take them: whole pictures, each by itself, and at most `most` ids of text between them."""
    start = 0
    while start < len(ids):
        end = start + 1
        if ids[start] >= FIRST:
            while end < len(ids) and ids[end] == ids[end - 1] + 1:
                end += 1
        else:
            end = min(len(ids), start + most)
            end = next((at for at in range(start, end) if ids[at] >= FIRST), end)
        yield ids[start:end]
        start = end
