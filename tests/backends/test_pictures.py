"""Files as pictures: shown right, or refused in a sentence before they are decoded."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from omnidraft.backends.pictures import LONGEST_SIDE, MOST_BYTES, open_picture, read_picture
from omnidraft.errors import PictureError


def saved(image: Image.Image, form: str = "PNG", **more: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **more)
    return file.getvalue()


def colours(data: bytes) -> np.ndarray:
    picture = read_picture(data)
    return np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width, 3)


def halves(mode: str, left: object, right: object) -> Image.Image:
    image = Image.new(mode, (8, 4), left)
    image.paste(right, (4, 0, 8, 4))
    return image


@pytest.mark.parametrize(("mode", "form"), [
    ("RGB", "PNG"), ("RGB", "JPEG"), ("RGB", "WEBP"), ("RGB", "BMP"), ("P", "GIF"), ("CMYK", "JPEG"), ("L", "PNG"),
    ("1", "PNG"), ("LA", "PNG"), ("I;16", "PNG"),
])  # fmt: skip
def test_every_kind_is_shown_as_it_looks(mode, form):
    black, white = {"CMYK": ((0, 0, 0, 255), (0, 0, 0, 0)), "LA": ((0, 255), (255, 255)), "I;16": (0, 65535),
                    "RGB": ((0, 0, 0), (255, 255, 255))}.get(mode, (0, 255))  # fmt: skip
    image = halves("RGB", (0, 0, 0), (255, 255, 255)).convert("P") if mode == "P" else halves(mode, black, white)
    seen = colours(saved(image, form))
    assert seen.shape == (4, 8, 3)
    assert seen[:, :2].max() < 40
    assert seen[:, 6:].min() > 215


def test_what_is_transparent_is_white():
    assert colours(saved(Image.new("RGBA", (2, 2), (0, 0, 0, 0)))).min() == 255
    assert colours(saved(halves("RGBA", (255, 0, 0, 255), (0, 0, 0, 0))))[0].tolist()[::7] == [[255, 0, 0], [255] * 3]


def test_a_turned_camera_is_turned_back():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn a quarter clockwise
    seen = colours(saved(halves("RGB", "black", "white"), "JPEG", exif=exif))
    assert seen.shape == (8, 4, 3)
    assert seen[:3].max() < 60 < 200 < seen[5:].min()


def test_of_a_moving_picture_the_first_is_taken():
    frames = [Image.new("P", (4, 4), colour) for colour in (0, 1)]
    frames[0].putpalette([255, 0, 0, 0, 0, 255])
    frames[1].putpalette([255, 0, 0, 0, 0, 255])
    assert colours(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))[0, 0].tolist() == [255, 0, 0]


def test_a_large_picture_is_made_smaller_and_keeps_its_shape():
    picture = read_picture(saved(Image.new("RGB", (6000, 1500), "red"), "JPEG"))
    assert (picture.width, picture.height) == (LONGEST_SIDE, LONGEST_SIDE // 4)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("data", "sentence"), [
    (b"", "is empty"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "save it as PNG"),
    (b"  <?xml version='1.0'?><svg/>", "save it as PNG"),
    (b"%PDF-1.7", "is not a PNG"),
    (b"plain words", "is not a PNG"),
    (saved(Image.new("RGB", (4, 4)), "TIFF"), "is not a PNG"),
    (saved(Image.new("RGB", (64, 64)), "JPEG")[:200], "is damaged"),
    (saved(Image.new("RGB", (64, 64)))[:60], "is damaged"),
    (bomb(10_000, 10_000), "10,000 x 10,000 pixels"),
    (bomb(60_000, 60_000), "far more than 40,000,000 pixels"),
    (b"x" * (MOST_BYTES + 1), "more than 20.0 MB"),
])  # fmt: skip
def test_what_cannot_be_shown_is_refused_in_a_sentence(data, sentence):
    with pytest.raises(PictureError, match=sentence) as refused:
        read_picture(data)
    assert "\n" not in str(refused.value)


def test_a_thousand_damaged_pictures():
    random = np.random.default_rng(0)
    image = Image.fromarray(random.integers(0, 256, (24, 40, 3), np.uint8))
    whole = [saved(image, form) for form in ("PNG", "JPEG", "WEBP", "GIF", "BMP")]
    shown = 0
    for number in range(1000):
        data = bytearray(whole[number % len(whole)])
        for at in random.integers(0, len(data), random.integers(1, 9)):
            data[at] = random.integers(0, 256)
        try:
            picture = read_picture(bytes(data))
        except PictureError:
            continue
        assert len(picture.pixels) == picture.width * picture.height * 3
        shown += 1
    assert 0 < shown < 1000


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PictureError, match="cannot be read"):
        open_picture(tmp_path / "none.png")
