#include "collectives/status_fields.h"

#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

namespace fsdp::collectives {

namespace {

constexpr char kSeparator = '\0';  // in no name and no message

}  // namespace

void append_field(std::string& text, const std::string& field) {
  text += field;
  text += kSeparator;
}

// A last field without an end was cut off.
FieldReader::FieldReader(const std::string& text) {
  for (size_t begin = 0; begin < text.size() && !failed_;) {
    const size_t end = text.find(kSeparator, begin);
    failed_ = end == std::string::npos;
    fields_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string FieldReader::text() {
  if (fields_.empty()) {
    failed_ = true;
    return {};
  }
  std::string field = std::move(fields_.front());
  fields_.pop_front();
  return field;
}

int64_t FieldReader::number(int64_t least, int64_t most) {
  const std::string field = text();
  int64_t number = least;
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, number);
  failed_ |= error != std::errc() || stop != end || number < least || number > most;
  return number;
}

uint64_t FieldReader::bits() {
  return static_cast<uint64_t>(number(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
}

}  // namespace fsdp::collectives
