// Data for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace data {

// The numbers as a file of this machine has them.
template <typename Stored>
std::string bytes_of(const std::vector<Stored>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Stored)};
}

// llm.c's header of 256 int32.
inline std::string header_of(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return bytes_of(header);
}

inline std::vector<int64_t> read_all(const TokenSource& source) {
  std::vector<int64_t> tokens(static_cast<size_t>(source.size()));
  source.read(0, tokens);
  return tokens;
}

// Tokens that are numbers in a row: 0, 1, 2, ...
class CountingTokens final : public TokenSource {
 public:
  explicit CountingTokens(int64_t size, int64_t first = 0) : size_(size), first_(first) {}
  int64_t size() const override { return size_; }
  int64_t limit() const override { return first_ + size_; }
  void read(int64_t first, std::span<int64_t> tokens) const override {
    for (int64_t& token : tokens) token = first_ + first++;
  }
  std::string where(int64_t position) const override { return "counting, token " + std::to_string(position); }

 private:
  int64_t size_, first_;
};

}  // namespace data
