// A number that differs, as good as always, where its parts do: FNV-1a of 64 bits (Fowler, Noll and Vo,
// https://www.rfc-editor.org/rfc/rfc9923). Against mistakes, not against people who look for two of the same.
#pragma once

#include <cstdint>
#include <string_view>

namespace data {

class Fingerprint {
 public:
  // Parts are told apart: "ab", "c" is not "a", "bc".
  void add(std::string_view part) {
    for (uint64_t length = part.size(), i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(length >> (8 * i)));
    for (char byte : part) add_byte(static_cast<unsigned char>(byte));
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }

  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace data
