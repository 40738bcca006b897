// HMAC-SHA-256 (RFC 2104), by OpenSSL: every system that runs LibTorch has its libcrypto, and it is looked after. A
// hash of our own would be one more thing to trust.
#pragma once

#include <string>
#include <string_view>

namespace fsdp::world {

inline constexpr size_t kHashBytes = 32;

// kHashBytes bytes, which cannot be computed without the key. `purpose` keeps hashes for one use from serving another.
std::string keyed_hash(const std::string& key, const std::string& purpose, std::string_view text);
std::string in_hexadecimal(std::string_view bytes);
// In a time that tells nothing of where two texts of one length differ.
bool are_equal(std::string_view left, std::string_view right);

}  // namespace fsdp::world
