#include "collectives/notice.h"

#include <algorithm>
#include <utility>

namespace fsdp::collectives {

namespace {

constexpr char kSeparator = '\0';  // in no name and no message

void append(std::string& text, const std::string& field) {
  text += field;
  text += kSeparator;
}

std::deque<std::string> split(const std::string& text) {
  std::deque<std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find(kSeparator, begin);
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

std::string take(std::deque<std::string>& fields) {
  std::string field = std::move(fields.front());
  fields.pop_front();
  return field;
}

}  // namespace

void History::add(std::string operation) {
  operations_.push_back(std::move(operation));
  if (operations_.size() <= kKept) return;
  operations_.pop_front();
  ++first_;
}

std::optional<int64_t> first_difference(const History& left, const History& right) {
  auto end = [](const History& history) { return history.first() + static_cast<int64_t>(history.operations().size()); };
  for (int64_t number = std::max(left.first(), right.first()); number < std::min(end(left), end(right)); ++number) {
    if (left.operation(number) != right.operation(number)) return number;
  }
  return std::nullopt;
}

std::string encode(const Notice& notice) {
  std::string text;
  append(text, std::to_string(notice.waiting));
  append(text, std::to_string(notice.failure.has_value()));
  if (notice.failure) {
    append(text, std::to_string(notice.failure->rank));
    append(text, std::to_string(notice.failure->of_connection));
    append(text, notice.failure->message);
  }
  append(text, std::to_string(notice.history.first()));
  for (const std::string& operation : notice.history.operations()) append(text, operation);
  return text;
}

Notice decode(const std::string& text) {
  std::deque<std::string> fields = split(text);
  Notice notice;
  notice.waiting = take(fields) == "1";
  if (take(fields) == "1") {
    Failure& failure = notice.failure.emplace();
    failure.rank = std::stoi(take(fields));
    failure.of_connection = take(fields) == "1";
    failure.message = take(fields);
  }
  const int64_t first = std::stoll(take(fields));
  notice.history = History(first, std::move(fields));
  return notice;
}

}  // namespace fsdp::collectives
