#!/usr/bin/env python3
"""Writes data/: pictures of each kind, and references.npz: what OpenCV and Pillow make of them.

    python3 -m venv V; V/bin/pip install numpy opencv-python-headless==4.12.0.88 pillow==12.0.0 pypng
    V/bin/python make_references.py
"""

import io
import math
import pathlib

import cv2
import numpy as np
import png
from PIL import Image, ImageOps

DATA = pathlib.Path(__file__).resolve().parent / "data"
WIDTH, HEIGHT = 45, 23


def page(channels):
    """Strokes on a sloped ground with a little noise: [HEIGHT, WIDTH, channels]."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    values = np.stack([200 - 2 * x + y, 90 + 3 * y + x, 250 - 4 * y], 2)
    values[5:19, 8:12] = (20, 40, 60)
    values[5:8, 12:30] = (60, 10, 200)
    values[12:15, 20:40] = (0, 0, 0)
    values = values + np.random.default_rng(41).integers(-6, 7, values.shape)
    return np.clip(values, 0, 255).astype(np.uint8)[:, :, :channels]


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def oriented(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def interlaced(values):
    file = io.BytesIO()
    png.Writer(WIDTH, HEIGHT, greyscale=False, interlace=True).write(file, values.reshape(HEIGHT, -1).tolist())
    return file.getvalue()


def deep(values, greyscale):
    file = io.BytesIO()
    wide = values.astype(np.uint16) * 256 + 77
    png.Writer(WIDTH, HEIGHT, greyscale=greyscale, bitdepth=16).write(file, wide.reshape(HEIGHT, -1).tolist())
    return file.getvalue()


def with_alpha(values):
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    alpha[:, 30:] = np.linspace(0, 255, WIDTH - 30, dtype=np.uint8)[None, :, None]
    return Image.fromarray(np.concatenate([values, alpha], 2), "RGBA")


def files():
    colour = Image.fromarray(page(3), "RGB")
    grey = colour.convert("L")
    palette = colour.quantize(16)
    yield "colour.png", saved(colour, "PNG")
    yield "grey.png", saved(grey, "PNG")
    yield "one_bit.png", saved(grey.convert("1"), "PNG")
    yield "palette.png", saved(palette, "PNG")
    yield "transparent_palette.png", saved(palette, "PNG", transparency=3)
    yield "alpha.png", saved(with_alpha(page(3)), "PNG")
    yield "interlaced.png", interlaced(page(3))
    yield "deep.png", deep(page(3), False)
    yield "deep_grey.png", deep(page(1), True)
    yield "turned.png", saved(colour, "PNG", exif=oriented(6))
    yield "colour.jpg", saved(colour, "JPEG", quality=90)
    yield "grey.jpg", saved(grey, "JPEG", quality=90)
    yield "progressive.jpg", saved(colour, "JPEG", quality=90, progressive=True)
    yield "cmyk.jpg", saved(colour.convert("CMYK"), "JPEG", quality=90)
    for orientation in range(2, 9):
        yield f"turned_{orientation}.jpg", saved(colour, "JPEG", quality=90, exif=oriented(orientation))


def pixels(name, file):
    """As Pillow decodes it: red, green, blue; over white."""
    if name == "deep_grey.png":  # Pillow has no 8 bits of these
        return cv2.cvtColor(cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if image.mode == "RGBA" or "transparency" in image.info:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.array(image.convert("RGB"))


def paddle(picture, height, least):
    """resize_norm_img of PaddleOCR and RapidOCR, of a batch of one."""
    ratio = picture.shape[1] / picture.shape[0]
    width = int(height * max(least / height, ratio))
    covered = min(math.ceil(height * ratio), width)
    resized = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), (covered, height)).astype("float32")
    values = np.zeros((3, height, width), np.float32)
    values[:, :, :covered] = (resized.transpose(2, 0, 1) / 255 - 0.5) / 0.5
    return values


def main():
    DATA.mkdir(exist_ok=True)
    references = {}
    for name, file in files():
        (DATA / name).write_bytes(file)
        references[name] = pixels(name, file)
    colour = Image.fromarray(page(3), "RGB")
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
    for size in [(45, 16), (20, 23), (13, 7), (71, 48), (22, 11), (1, 1)]:
        label = f"{size[0]}x{size[1]}"
        references[f"linear {label}"] = cv2.resize(np.array(colour), size)
        for name, kind in filters.items():
            references[f"{name} {label}"] = np.array(colour.resize(size, kind))
    references["luma"] = np.array(colour.convert("L"))
    for name, picture, height, least in [("narrow", page(3), 12, 40), ("wide", page(3)[:9], 12, 40)]:
        references[f"paddle {name}"] = paddle(picture, height, least)
    np.savez_compressed(DATA / "references.npz", **references)


if __name__ == "__main__":
    main()
