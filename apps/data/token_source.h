// The source of training's tokens: a sequence, wherever they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace data {

// Where to read, and where to put what is read.
struct Reading {
  int64_t first = 0;
  std::span<int64_t> tokens = {};
};

// Immutable once made: threads, and processes forked from this one, may share it.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual int64_t size() const = 0;   // tokens
  virtual int64_t limit() const = 0;  // ids are 0 .. limit()-1, as far as the form of the source says
  // The tokens from `first` on; 0 <= first and first + tokens.size() <= size(). Throws fsdp::Error when the data has
  // changed under the program's feet.
  virtual void read(int64_t first, std::span<int64_t> tokens) const = 0;
  // Each as read() does it. A file is asked once for all of them whether it has changed: of short windows, that is what
  // takes the time.
  virtual void read_several(std::span<const Reading> readings) const {
    for (const Reading& reading : readings) read(reading.first, reading.tokens);
  }
  // For messages: "token file 'train.bin', token 17".
  virtual std::string where(int64_t position) const = 0;
  // When the newest of its files was written, in seconds since 1970; 0: it has no files.
  virtual int64_t written() const { return 0; }
  // Takes mapped files out of this process's resident memory. They are read as before.
  virtual void release() const {}
};

using Tokens = std::shared_ptr<const TokenSource>;

// The tokens `first` .. `first + size - 1` of another source.
Tokens part_of(Tokens tokens, int64_t first, int64_t size);

// Sources one after the other, as one. At least one.
Tokens joined(std::vector<Tokens> parts);

struct TokenSplit {
  Tokens training;
  Tokens validation;  // null: nothing is held back
};

// Holds back the last `fraction` (0 .. 1) of the tokens, or nothing where either part would have no window of
// context + 1 tokens.
TokenSplit split_tokens(const Tokens& tokens, double fraction, int64_t context);

// Throws fsdp::Error when there is no window of context + 1 tokens to train on. `what` begins the message.
void check_window(const TokenSource& tokens, int64_t context, const std::string& what);

}  // namespace data
