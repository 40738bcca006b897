#include "data/content.h"

#include <algorithm>
#include <span>
#include <vector>

namespace data {

namespace {

constexpr int64_t kReleased = 64 * kHashedTogether;  // that are read between two calls of release()

}  // namespace

std::string content_hash(int64_t size, const AddContent& add) {
  fsdp::files::ContentHash hash;
  if (size <= kHashedWhole) {
    for (int64_t first = 0; first < size; first += kHashedTogether) {
      add(first, std::min(kHashedTogether, size - first), hash);
    }
  } else {
    const int64_t last = size - kHashedTogether;
    for (int64_t place = 0; place < kHashedPlaces; ++place) {
      add(last * place / (kHashedPlaces - 1), kHashedTogether, hash);
    }
  }
  return hash.hexadecimal();
}

std::string content_hash(const TokenSource& tokens) {
  std::vector<int64_t> ids(static_cast<size_t>(kHashedTogether));
  int64_t since_release = 0;
  const auto add = [&](int64_t first, int64_t count, fsdp::files::ContentHash& hash) {
    const std::span<int64_t> read = std::span(ids).first(static_cast<size_t>(count));
    tokens.read(first, read);
    hash.add(read.data(), read.size_bytes());
    since_release += count;
    if (since_release < kReleased) return;
    tokens.release();
    since_release = 0;
  };
  std::string hash = content_hash(tokens.size(), add);
  tokens.release();
  return hash;
}

}  // namespace data
