// The content of data as a hash, by which a change is found: of all of it, or of a part that is spread over all where
// the data is large.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/token_source.h"
#include "files/content_hash.h"

namespace data {

inline constexpr int64_t kHashedWhole = int64_t{1} << 28;                           // bytes of a text, or tokens
inline constexpr int64_t kHashedPlaces = 1024, kHashedTogether = int64_t{1} << 16;  // of more than that

// Adds `count` bytes or tokens from `first` on to the hash; at most kHashedTogether.
using AddContent = std::function<void(int64_t first, int64_t count, fsdp::files::ContentHash& hash)>;

// Returns the hash of `size` bytes or tokens, in hexadecimal digits.
std::string content_hash(int64_t size, const AddContent& add);

// Returns the hash of the ids. It does not depend on how files store them.
std::string content_hash(const TokenSource& tokens);

}  // namespace data
