#include "metrics/protobuf.h"

#include <bit>

namespace trainer {

void Message::add_double(int field, double value) {
  add_key(field, /*wire_type=*/1);
  add_little_endian(bytes_, std::bit_cast<uint64_t>(value));
}

void Message::add_float(int field, float value) {
  add_key(field, 5);
  add_little_endian(bytes_, std::bit_cast<uint32_t>(value));
}

void Message::add_integer(int field, int64_t value) {
  add_key(field, 0);
  add_varint(static_cast<uint64_t>(value));
}

void Message::add_bytes(int field, std::string_view value) {
  add_key(field, 2);
  add_varint(value.size());
  bytes_ += value;
}

void Message::add_key(int field, int wire_type) { add_varint(static_cast<uint64_t>(field << 3 | wire_type)); }

void Message::add_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

}  // namespace trainer
