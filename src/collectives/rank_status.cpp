#include "collectives/rank_status.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

namespace fsdp::collectives {

namespace {

constexpr char kSeparator = '\0';  // in no name and no message

void append(std::string& text, const std::string& field) {
  text += field;
  text += kSeparator;
}

// None where the last field has no end: the text was cut off.
std::optional<std::deque<std::string>> split(const std::string& text) {
  std::deque<std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find(kSeparator, begin);
    if (end == std::string::npos) return std::nullopt;
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

// Takes field after field. After one that is missing or wrong the values are of no use, and `failed` says so.
class Reader {
 public:
  explicit Reader(std::deque<std::string> fields) : fields_(std::move(fields)) {}

  bool failed() const { return failed_; }
  std::deque<std::string> rest() { return std::move(fields_); }

  std::string text() {
    if (fields_.empty()) {
      failed_ = true;
      return {};
    }
    std::string field = std::move(fields_.front());
    fields_.pop_front();
    return field;
  }
  int64_t number(int64_t least, int64_t most) {
    const std::string field = text();
    int64_t number = least;
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, number);
    failed_ |= error != std::errc() || stop != end || number < least || number > most;
    return number;
  }
  bool flag() { return number(0, 1) == 1; }

 private:
  std::deque<std::string> fields_;
  bool failed_ = false;
};

}  // namespace

void History::add(std::string operation) {
  operations_.push_back(std::move(operation));
  if (operations_.size() <= kKept) return;
  operations_.pop_front();
  ++first_;
}

std::optional<int64_t> first_difference(const History& left, const History& right) {
  for (int64_t number = std::max(left.first(), right.first()); number < std::min(left.end(), right.end()); ++number) {
    if (left.operation(number) != right.operation(number)) return number;
  }
  return std::nullopt;
}

std::string encode(const RankStatus& status) {
  std::string text;
  append(text, std::to_string(status.waiting));
  append(text, std::to_string(status.failure.has_value()));
  if (status.failure) {
    append(text, std::to_string(status.failure->rank));
    append(text, std::to_string(status.failure->of_connection));
    append(text, status.failure->message);
  }
  append(text, std::to_string(status.call.has_value()));
  if (status.call) {
    append(text, std::to_string(static_cast<int64_t>(status.call->world)));
    append(text, std::to_string(status.call->number));
    append(text, status.call->purpose);
  }
  append(text, std::to_string(status.history.first()));
  for (const std::string& operation : status.history.operations()) append(text, operation);
  return text;
}

std::optional<RankStatus> decode(const std::string& text) {
  // So that the number of the last operation is a number too.
  constexpr int64_t kMostOperations = std::numeric_limits<int64_t>::max() / 2;
  std::optional<std::deque<std::string>> fields = split(text);
  if (!fields) return std::nullopt;
  Reader reader(std::move(*fields));
  RankStatus status;
  status.waiting = reader.flag();
  if (reader.flag()) {
    Failure& failure = status.failure.emplace();
    failure.rank = static_cast<int>(reader.number(0, std::numeric_limits<int>::max()));
    failure.of_connection = reader.flag();
    failure.message = reader.text();
  }
  if (reader.flag()) {
    constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
    WorldCall& call = status.call.emplace();
    call.world = static_cast<uint64_t>(reader.number(kLeast, kMost));
    call.number = static_cast<uint64_t>(reader.number(1, kMost));
    call.purpose = reader.text();
  }
  const int64_t first = reader.number(1, kMostOperations);
  if (reader.failed()) return std::nullopt;
  status.history = History(first, reader.rest());
  return status;
}

}  // namespace fsdp::collectives
