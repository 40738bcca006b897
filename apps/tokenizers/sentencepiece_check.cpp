#include "tokenizers/sentencepiece_check.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tokenizers {

namespace {

constexpr int64_t kMostPieces = int64_t{1} << 22;
constexpr size_t kLongestNormalised = 1024;  // bytes that take the place of one character; Unicode knows 33
static_assert(std::endian::native == std::endian::little, "numbers of models are read as they lie in memory");

// The types of a message in the wire format; the library has no groups.
enum class WireType : uint32_t { Varint = 0, EightBytes = 1, Length = 2, FourBytes = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::Varint;
  std::string_view bytes = {};  // none of a varint's
};

class Damaged : public fsdp::Error {
 public:
  using Error::Error;
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  bool is_at_end() const { return rest_.empty(); }

  WireField next() {
    const uint64_t tag = varint();
    if (tag > std::numeric_limits<uint32_t>::max() || tag >> 3 == 0) throw Damaged("a field has no number");
    WireField field{.number = static_cast<uint32_t>(tag >> 3), .type = static_cast<WireType>(tag & 7)};
    switch (field.type) {
      case WireType::Varint:
        varint();
        return field;
      case WireType::EightBytes:
        field.bytes = take(8);
        return field;
      case WireType::Length:
        field.bytes = take(varint());
        return field;
      case WireType::FourBytes:
        field.bytes = take(4);
        return field;
    }
    throw Damaged(fmt::format("field {} is of an unknown type", field.number));
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw Damaged(fmt::format("a field of {} bytes has {} left", size, rest_.size()));
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw Damaged("a number does not end");
  }

  std::string_view rest_;
};

template <typename Number>
Number number_at(std::string_view bytes, size_t at = 0) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// SentencePiece: 1 is the piece, 2 its score.
void check_piece(std::string_view message) {
  constexpr uint32_t kPiece = 1, kScore = 2;
  bool is_named = false;
  for (WireReader reader(message); !reader.is_at_end();) {
    const WireField field = reader.next();
    if (field.number == kPiece && field.type == WireType::Length) is_named = !field.bytes.empty();
    if (field.number == kScore && field.type == WireType::FourBytes && !std::isfinite(number_at<float>(field.bytes))) {
      throw Damaged("the score of a piece is no number");
    }
  }
  if (!is_named) throw Damaged("a piece is empty");
}

// A unit of Darts-clone's array. The next one is found at its own place, its offset and the next byte, all combined by
// exclusive or; a leaf tells where its text begins.
struct DartsUnit {
  uint32_t bits;

  bool is_leaf() const { return bits >> 31 != 0; }
  bool ends_a_key() const { return (bits & 0x100u) != 0; }  // the leaf lies where a zero byte leads
  uint32_t value() const { return bits & 0x7fffffffu; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200u) >> 6); }
};

void check_array(std::string_view array, std::string_view texts) {
  constexpr size_t kLastByte = 255;
  const size_t units = array.size() / sizeof(uint32_t);
  if (units == 0 || array.size() % sizeof(uint32_t) != 0) throw Damaged("the array of a normaliser is cut");
  const auto unit_at = [&](size_t place) { return DartsUnit{number_at<uint32_t>(array, place * sizeof(uint32_t))}; };
  for (size_t place = 0; place < units; ++place) {
    const DartsUnit unit = unit_at(place);
    if (unit.is_leaf() && place != 0) continue;  // no byte leads on to it
    const size_t next = place ^ unit.offset();
    if ((next | kLastByte) >= units) throw Damaged("the array of a normaliser leads outside of itself");
    if (unit.ends_a_key() && unit_at(next).value() >= texts.size()) {
      throw Damaged("the array of a normaliser leads outside of its texts");
    }
  }
}

// Each is read up to its zero.
void check_texts(std::string_view texts) {
  if (texts.empty() || texts.back() != '\0') throw Damaged("the texts of a normaliser do not end");
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = texts.find('\0', begin);
    if (end - begin > kLongestNormalised) throw Damaged("a text of a normaliser is too long");
    begin = end + 1;
  }
}

// The size of the array, the array, the texts.
void check_character_map(std::string_view map) {
  if (map.empty()) return;
  if (map.size() < sizeof(uint32_t)) throw Damaged("the map of a normaliser is cut");
  const auto size = number_at<uint32_t>(map);
  map.remove_prefix(sizeof(uint32_t));
  if (size > map.size()) throw Damaged("the map of a normaliser is cut");
  check_texts(map.substr(size));
  check_array(map.substr(0, size), map.substr(size));
}

// NormalizerSpec: 2 is the map.
void check_normaliser(std::string_view message) {
  constexpr uint32_t kMap = 2;
  for (WireReader reader(message); !reader.is_at_end();) {
    const WireField field = reader.next();
    if (field.number == kMap && field.type == WireType::Length) check_character_map(field.bytes);
  }
}

// ModelProto: 1 is a piece, 3 and 5 are normalisers.
void check_model(std::string_view model) {
  constexpr uint32_t kPiece = 1, kNormaliser = 3, kDenormaliser = 5;
  int64_t pieces = 0;
  for (WireReader reader(model); !reader.is_at_end();) {
    const WireField field = reader.next();
    if (field.type != WireType::Length) continue;
    if (field.number == kPiece) check_piece(field.bytes);
    if (field.number == kPiece && ++pieces > kMostPieces) {
      throw Damaged(fmt::format("there are more than {} pieces", kMostPieces));
    }
    if (field.number == kNormaliser || field.number == kDenormaliser) check_normaliser(field.bytes);
  }
  if (pieces == 0) throw Damaged("there are no pieces");
}

}  // namespace

void check_sentencepiece(std::string_view model, const std::string& name) try {
  check_model(model);
} catch (const Damaged& problem) {
  throw fsdp::Error(fmt::format("tokenizer '{}' is no sentencepiece model, or is damaged: {}.", name, problem.what()));
}

}  // namespace tokenizers
