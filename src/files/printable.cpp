#include "files/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace fsdp::files {

namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: no UTF-8
};

// The shortest form alone counts, without surrogates (RFC 3629).
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code >= kLeast[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? Character{code, bytes} : Character{};
}

bool controls(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool direction = code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                         (code >= 0x2066 && code <= 0x2069);
  const bool line = code == 0x2028 || code == 0x2029;
  return control || direction || line;
}

std::string made_visible(std::string_view text, std::string_view kept) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    const size_t bytes = next.bytes == 0 ? 1 : next.bytes;
    if (next.bytes == 0) {
      result += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    } else if (controls(next.code) && kept.find(text[0]) == std::string_view::npos) {
      result += next.code < 0x80 ? fmt::format("\\x{:02x}", next.code) : fmt::format("\\u{:04x}", next.code);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return made_visible(text, ""); }

std::string printable_lines(std::string_view text) { return made_visible(text, "\n\t"); }

}  // namespace fsdp::files
