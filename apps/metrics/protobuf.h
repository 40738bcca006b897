// Messages in protocol buffers' encoding (https://protobuf.dev/programming-guides/encoding): fields by number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainer {

class Message {
 public:
  void add_double(int field, double value);
  void add_float(int field, float value);
  void add_integer(int field, int64_t value);  // and enumerations, and booleans
  void add_bytes(int field, std::string_view value);
  void add_message(int field, const Message& value) { add_bytes(field, value.bytes()); }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_key(int field, int wire_type);
  void add_varint(uint64_t value);

  std::string bytes_;
};

template <typename Number>
void add_little_endian(std::string& bytes, Number number) {
  for (size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

}  // namespace trainer
