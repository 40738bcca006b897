// The text of a status: fields that end with a zero byte. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace fsdp::collectives {

// The field has no zero byte.
void append_field(std::string& text, const std::string& field);
inline void append_field(std::string& text, int64_t number) { append_field(text, std::to_string(number)); }

// Takes field after field. After one that is missing or wrong the values are of no use, and `failed` says so.
class FieldReader {
 public:
  explicit FieldReader(const std::string& text);

  bool failed() const { return failed_; }
  bool is_at_end() const { return fields_.empty(); }
  std::deque<std::string> rest() { return std::move(fields_); }

  std::string text();
  int64_t number(int64_t least, int64_t most);
  bool flag() { return number(0, 1) == 1; }
  // Any bits.
  uint64_t bits();

 private:
  std::deque<std::string> fields_;
  bool failed_ = false;
};

}  // namespace fsdp::collectives
