"""What may happen to a file: each function changes bytes, with random numbers of its own."""

import re


def flip_bit(data, rng):
    data = bytearray(data)
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip_many_bits(data, rng):
    for _ in range(rng.randint(2, 200)):
        data = flip_bit(data, rng)
    return data


def cut_off(data, rng):
    return data[: rng.randrange(len(data) + 1)]


def empty(data, rng):
    return b""


def append_noise(data, rng):
    return data + rng.randbytes(rng.randint(1, 5000))


def noise(data, rng):
    return rng.randbytes(rng.randint(1, 5000))


def zeros(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes(rng.randint(1, 300)) + data[at + rng.randint(0, 300):]


def repeat_part(data, rng):
    begin = rng.randrange(len(data) + 1)
    part = data[begin: begin + rng.randint(1, 2000)]
    return data[:begin] + part * rng.randint(2, 50) + data[begin:]


def another_number(data, rng):
    """One number becomes one that is negative, huge, a fraction or no number."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data[:1 << 20]))
    if not numbers:
        return flip_bit(data, rng)
    found = rng.choice(numbers)
    other = rng.choice([b"-1", b"0", b"1e400", b"9223372036854775807", b"9223372036854775808", b"0.5", b'"x"', b"null",
                        b"[]", b"{}", b"true", b"1" * 400, b"NaN", b"-0", b"4294967296"])
    return data[: found.start()] + other + data[found.end():]


def nest_deep(data, rng):
    opening = rng.choice([b"[", b'{"a":', b"a.", b"[[", b"{a="])
    at = rng.randrange(len(data) + 1) if rng.random() < 0.5 else 0
    return data[:at] + opening * 200_000 + data[at:]


def terminal_escapes(data, rng):
    """Names that would clear the screen, set its title, or turn the direction of writing."""
    escape = rng.choice([b"\x1b[2J\x1b[H", b"\x1b]0;title\x07", b"\xc2\x9b31m", "\u202e".encode(), b"\\u001b[31m",
                         b"\x08\x08\x08"])
    letters = [match.end() for match in re.finditer(rb"[a-z]{3,}", data[:1 << 16])]
    at = rng.choice(letters) if letters else 0
    return data[:at] + escape + data[at:]


def swap_parts(data, rng):
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[b:] + data[a:b] + data[:a]


def widen_length(data, rng):
    """A number in binary, as at the beginning of many files, becomes huge."""
    at = rng.choice([0, 4, 8, rng.randrange(max(1, len(data) - 8))])
    size = rng.choice([4, 8])
    number = rng.choice([b"\xff" * size, b"\xff" * (size - 1) + b"\x7f", b"\x00" * (size - 1) + b"\x80"])
    return data[:at] + number + data[at + size:]


MUTATIONS = {function.__name__: function
             for function in (flip_bit, flip_many_bits, cut_off, empty, append_noise, noise, zeros, repeat_part,
                              another_number, nest_deep, terminal_escapes, swap_parts, widen_length)}
