#include "world/keyed_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"

namespace fsdp::world {

std::string keyed_hash(const std::string& key, const std::string& purpose, std::string_view text) {
  std::string message = purpose + '\0';
  message += text;
  std::string hash(kHashBytes, '\0');
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const bool done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, message.size(),
                         reinterpret_cast<unsigned char*>(hash.data()), nullptr) != nullptr;
  FSDP_INVARIANT(done, "OpenSSL computes no HMAC-SHA-256");
  return hash;
}

std::string in_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

bool are_equal(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace fsdp::world
