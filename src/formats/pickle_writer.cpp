#include "formats/pickle_writer.h"

#include <cstring>
#include <limits>
#include <utility>

#include "formats/pickle_codes.h"

namespace fsdp::formats {

namespace {

void append_code(std::string& bytes, pickle::Code code) { bytes += static_cast<char>(code); }

template <typename Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

PickleWriter::PickleWriter() {
  append_code(bytes_, pickle::kProto);
  append_number<uint8_t>(bytes_, 2);
}

void PickleWriter::none() { append_code(bytes_, pickle::kNone); }
void PickleWriter::boolean(bool value) { append_code(bytes_, value ? pickle::kNewTrue : pickle::kNewFalse); }

void PickleWriter::number(int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<uint8_t>::max()) {
    append_code(bytes_, pickle::kBinInt1);
    append_number(bytes_, static_cast<uint8_t>(value));
  } else if (value == static_cast<int32_t>(value)) {
    append_code(bytes_, pickle::kBinInt);
    append_number(bytes_, static_cast<int32_t>(value));
  } else {
    append_code(bytes_, pickle::kLong1);
    append_number<uint8_t>(bytes_, sizeof value);
    append_number(bytes_, value);
  }
}

void PickleWriter::text(std::string_view value) {
  append_code(bytes_, pickle::kBinUnicode);
  append_number(bytes_, static_cast<uint32_t>(value.size()));
  bytes_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  append_code(bytes_, pickle::kGlobal);
  bytes_.append(module).append("\n").append(name).append("\n");
}

void PickleWriter::numbers(std::span<const int64_t> values) {
  mark();
  for (const int64_t value : values) number(value);
  tuple();
}

void PickleWriter::mark() { append_code(bytes_, pickle::kMark); }
void PickleWriter::tuple() { append_code(bytes_, pickle::kTuple); }
void PickleWriter::empty_tuple() { append_code(bytes_, pickle::kEmptyTuple); }
void PickleWriter::empty_list() { append_code(bytes_, pickle::kEmptyList); }
void PickleWriter::append() { append_code(bytes_, pickle::kAppend); }
void PickleWriter::empty_dict() { append_code(bytes_, pickle::kEmptyDict); }
void PickleWriter::set_item() { append_code(bytes_, pickle::kSetItem); }
void PickleWriter::persistent() { append_code(bytes_, pickle::kBinPersId); }
void PickleWriter::call() { append_code(bytes_, pickle::kReduce); }
void PickleWriter::make() { append_code(bytes_, pickle::kNewObj); }
void PickleWriter::build() { append_code(bytes_, pickle::kBuild); }

std::string PickleWriter::finish() {
  append_code(bytes_, pickle::kStop);
  return std::move(bytes_);
}

}  // namespace fsdp::formats
