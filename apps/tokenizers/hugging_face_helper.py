"""Answers questions about one tokenizer with the package tokenizers; helper_process.h starts it.

Standard input is a socket. A question is a byte, the length of its payload in 8 bytes, little-endian as all numbers,
and the payload; an answer likewise, its byte 0 where all went well, and 1 where the payload says what did not. The
first answer comes unasked: whether the package is there.

  V  the length of vocab.json in 8 bytes, it, and merges.txt: the text of a tokenizer.json of GPT-2's kind
  L  the text of a tokenizer.json: {"vocabulary": N, "end_of_text": ID or null}; it is used from then on
  E  4 bytes each: threads, texts; 8 bytes: the size of each; the texts: 8 bytes each: its tokens; the tokens in 4 bytes
  D  tokens in 4 bytes each: their text
"""

import sys

sys.path = [folder for folder in sys.path if folder not in ("", ".")]  # packages lie not where one happens to be

import array
import json
import os
import socket
import struct

LONGEST_MESSAGE = 2000
MOST_TOKENS = 1 << 24
# As the tokenizers of models in use call it: GPT-2 and its like, Llama 3, Llama 2 and Mistral, Gemma.
ENDS_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")


class Helper:
    def merge_files(self, payload):
        (size,) = struct.unpack_from("<Q", payload)
        vocabulary = json.loads(bytes(payload[8 : 8 + size]))
        lines = bytes(payload[8 + size :]).decode().split("\n")
        merges = [tuple(line.rstrip("\r").split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
        if not isinstance(vocabulary, dict) or not all(type(token) is int for token in vocabulary.values()):
            raise ValueError("vocab.json is no object of token numbers")
        if any(len(merge) != 2 for merge in merges):
            raise ValueError("merges.txt has a line that is not two tokens with a space between them")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        tokenizer.add_special_tokens([name for name in ENDS_OF_TEXT if name in vocabulary])
        return tokenizer.to_str().encode()

    def load(self, payload):
        tokenizer = tokenizers.Tokenizer.from_str(bytes(payload).decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if getattr(tokenizer.model, "dropout", None):
            tokenizer.model.dropout = None  # the tokens of a text are to be the same each time
        vocabulary = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        if not 0 < vocabulary <= MOST_TOKENS:
            raise ValueError(f"its highest token is {vocabulary - 1}, expected 0 to {MOST_TOKENS - 1}")
        special = {str(token.content): number for number, token in tokenizer.get_added_tokens_decoder().items()}
        end = next((special[name] for name in ENDS_OF_TEXT if name in special), None)
        self.tokenizer = tokenizer
        return json.dumps({"vocabulary": vocabulary, "end_of_text": end}).encode()

    def encode(self, payload):
        threads, count = struct.unpack_from("<II", payload)
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))  # read once, when the first texts are encoded
        sizes = struct.unpack_from(f"<{count}Q", payload, 8)
        texts, first = [], 8 + 8 * count
        for size in sizes:
            texts.append(bytes(payload[first : first + size]).decode(errors="replace"))
            first += size
        encoded = [one.ids for one in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        return struct.pack(f"<{count}Q", *map(len, encoded)) + b"".join(array.array("i", ids).tobytes() for ids in encoded)

    def decode(self, payload):
        tokens = array.array("i", bytes(payload))
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True).encode(errors="replace")


def answer(channel, status, payload):
    channel.sendall(struct.pack("<BQ", status, len(payload)))
    channel.sendall(payload)


def receive(channel, size):
    payload = bytearray(size)
    view, received = memoryview(payload), 0
    while received < size:
        count = channel.recv_into(view[received:])
        if count == 0:
            sys.exit(0)  # nobody asks any more
        received += count
    return view


def serve(channel):
    helper = Helper()
    answers = {b"V": helper.merge_files, b"L": helper.load, b"E": helper.encode, b"D": helper.decode}
    while True:
        question, size = struct.unpack("<cQ", receive(channel, 9))
        payload = receive(channel, size)
        try:
            status, result = 0, answers[question](payload)
        except SystemExit:
            raise
        except BaseException as error:  # a panic of the package, which is written in Rust, is no Exception
            status, result = 1, str(error)[:LONGEST_MESSAGE].encode(errors="replace")
        answer(channel, status, result)


channel = socket.socket(fileno=0)
try:
    import tokenizers
except Exception as error:
    answer(channel, 1, str(error)[:LONGEST_MESSAGE].encode(errors="replace"))
    sys.exit(1)
answer(channel, 0, tokenizers.__version__.encode())
serve(channel)
