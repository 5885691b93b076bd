"""Files of a translation model as Firefox has them, with random weights: FOLDER/model.DIRECTION.intgemm.alphas.bin,
vocab.DIRECTION.spm and lex.50.50.DIRECTION.s2t.bin.

Usage: marian_files.py FOLDER DIRECTION...
"""

import pathlib
import struct
import sys

import numpy

WIDTH, HEADS, INNER, LAYERS, TOKENS = 16, 4, 24, 2, 40
FLOAT32, INT8 = 0x404, 0x101
ALIGNMENT = 256


def words():
    """The vocabulary; words with an odd number end a sentence."""
    return ["</s>", "<unk>", *(f"w{i}{'!' if i % 2 else ''}" for i in range(2, TOKENS))]


def field(number, data):
    """A field of a protobuf message: bytes, a float or a small integer."""
    if isinstance(data, bytes):
        return bytes([number << 3 | 2, len(data)]) + data
    if isinstance(data, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", data)
    return bytes([number << 3, data])


def sentencepiece_model():
    """The vocabulary as a SentencePiece model: unigrams, without normalisation."""
    kinds = {"</s>": 3, "<unk>": 2}
    pieces = [field(1, (word if word in kinds else "\u2581" + word).encode()) + field(2, -float(i)) +
              field(3, kinds.get(word, 1)) for i, word in enumerate(words())]  # fmt: skip
    return b"".join(field(1, piece) for piece in pieces) + field(2, field(3, 1)) + field(3, field(1, b"identity"))


def arrays(seed):
    """Peaked random weights by name, so that answers differ from sentence to sentence."""
    random = numpy.random.default_rng(seed)
    found = {}

    def add(name, rows, columns, size, mean=0.0):
        found[name] = (mean + size * random.standard_normal((rows, columns))).astype(numpy.float32)

    even = 1.2 / WIDTH**0.5

    def norm(name, scale=1.0):
        add(f"{name}_ln_scale", 1, WIDTH, 0.2, scale)
        add(f"{name}_ln_bias", 1, WIDTH, 0.1)

    def attention(name):
        for which in "qkvo":
            add(f"{name}_W{which}", WIDTH, WIDTH, 2 * even)
            add(f"{name}_b{which}", 1, WIDTH, 0.1)
        norm(f"{name}_Wo")

    def feed_forward(layer, scale):
        add(f"{layer}_ffn_W1", WIDTH, INNER, 2 * even)
        add(f"{layer}_ffn_b1", 1, INNER, 0.1)
        add(f"{layer}_ffn_W2", INNER, WIDTH, 2 * even)
        add(f"{layer}_ffn_b2", 1, WIDTH, 0.1)
        norm(f"{layer}_ffn_ffn", scale)

    add("Wemb", TOKENS, WIDTH, 0.3)
    add("decoder_ff_logit_out_b", 1, TOKENS, 0.5)
    for i in range(1, LAYERS + 1):
        attention(f"encoder_l{i}_self")
        feed_forward(f"encoder_l{i}", 1)
    for i in range(1, LAYERS + 1):
        add(f"decoder_l{i}_rnn_W", WIDTH, WIDTH, 3 * even)
        add(f"decoder_l{i}_rnn_Wf", WIDTH, WIDTH, even)
        add(f"decoder_l{i}_rnn_bf", 1, WIDTH, 0.1)
        norm(f"decoder_l{i}_rnn_ffn")
        attention(f"decoder_l{i}_context")
        feed_forward(f"decoder_l{i}", 6 if i == LAYERS else 1)
    return found


def options():
    return (f"type: transformer\ndim-emb: {WIDTH}\ndim-vocabs:\n  - {TOKENS}\n  - {TOKENS}\nenc-depth: {LAYERS}\n"
            f"dec-depth: {LAYERS}\ndec-cell: ssru\ntransformer-decoder-autoreg: rnn\ntransformer-heads: {HEADS}\n"
            f"transformer-dim-ffn: {INNER}\ntransformer-ffn-activation: relu\ntransformer-preprocess: \"\"\n"
            "transformer-postprocess: dan\ntransformer-tied-layers:\n  []\ninput-types:\n  []\n"
            "tied-embeddings-all: true\nversion: v1.9.0\n").encode() + b"\0"  # fmt: skip


def padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def binary(items):
    """A .bin file of (name, type, shape, bytes)."""
    head = struct.pack("<QQ", 1, len(items))
    for name, kind, shape, data in items:
        head += struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(padded(data)))
    head += b"".join(name.encode() + b"\0" for name, *_ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    gap = -(len(head) + 8) % ALIGNMENT
    return head + struct.pack("<Q", gap) + b"\0" * gap + b"".join(padded(data) for *_, data in items)


def shortlist():
    """Four tokens that are always open and, of source token i, i + 5 and i + 11 where there are such."""
    targets, offsets = [], [0]
    for i in range(TOKENS):
        targets += [target for target in (i + 5, i + 11) if target < TOKENS]
        offsets.append(len(targets))
    rest = struct.pack("<4Q", 4, 2, len(offsets), len(targets)) + struct.pack(f"<{len(offsets)}Q", *offsets)
    rest += struct.pack(f"<{len(targets)}I", *targets)
    total = 0
    for (word,) in struct.iter_unpack("<Q", rest[:len(rest) // 8 * 8]):
        total ^= (word + 0x9E3779B9 + (total << 6) + (total >> 2)) & (2**64 - 1)
    return struct.pack("<QQ", 0xF11A48D5013417F5, total) + rest


def write(folder, direction):
    """Writes the three files of a direction such as "enfr"."""
    items = [(name, FLOAT32, array.shape, array.tobytes())
             for name, array in arrays(int.from_bytes(direction.encode(), "big")).items()]
    items.append(("special:model.yml", INT8, [len(options())], options()))
    folder = pathlib.Path(folder)
    (folder / f"model.{direction}.intgemm.alphas.bin").write_bytes(binary(items))
    (folder / f"vocab.{direction}.spm").write_bytes(sentencepiece_model())
    (folder / f"lex.50.50.{direction}.s2t.bin").write_bytes(shortlist())


if __name__ == "__main__":
    for each in sys.argv[2:]:
        write(sys.argv[1], each)
