// A checkpoint's manifest that was changed on purpose: with a hash that fits again.
#pragma once

#include <string>

#include "files/content_hash.h"

// `text` begins with the hash's key, as it was written. What is wrong in it is then not found by its hash.
inline std::string sealed_manifest(std::string text) {
  const size_t digits = text.find(": \"") + 3;
  text.replace(digits, fsdp::files::kHashDigits, std::string(fsdp::files::kHashDigits, '0'));
  text.replace(digits, fsdp::files::kHashDigits, fsdp::files::hash_of(text.data(), text.size()));
  return text;
}
