#include "collectives/rank_status.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/divergence.h"
#include "collectives/status_fields.h"

namespace fsdp::collectives {

void History::add(std::string operation) {
  operations_.push_back(std::move(operation));
  if (operations_.size() <= kKept) return;
  operations_.pop_front();
  ++first_;
}

std::optional<int64_t> first_difference(const History& left, const History& right) {
  for (int64_t number = std::max(left.first(), right.first()); number < std::min(left.end(), right.end()); ++number) {
    if (!is_same_operation(left.operation(number), right.operation(number))) return number;
  }
  return std::nullopt;
}

std::string encode(const RankStatus& status) {
  std::string text;
  append_field(text, status.waiting);
  append_field(text, status.failure.has_value());
  if (status.failure) {
    append_field(text, status.failure->rank);
    append_field(text, status.failure->of_connection);
    append_field(text, status.failure->message);
  }
  append_field(text, status.call.has_value());
  if (status.call) {
    append_field(text, static_cast<int64_t>(status.call->world));
    append_field(text, static_cast<int64_t>(status.call->number));
    append_field(text, status.call->purpose);
  }
  append_field(text, status.history.first());
  for (const std::string& operation : status.history.operations()) append_field(text, operation);
  return text;
}

std::optional<RankStatus> decode(const std::string& text) {
  // So that the number of the last operation is a number too.
  constexpr int64_t kMostOperations = std::numeric_limits<int64_t>::max() / 2;
  FieldReader reader(text);
  RankStatus status;
  status.waiting = reader.flag();
  if (reader.flag()) {
    Failure& failure = status.failure.emplace();
    failure.rank = static_cast<int>(reader.number(0, std::numeric_limits<int>::max()));
    failure.of_connection = reader.flag();
    failure.message = reader.text();
  }
  if (reader.flag()) {
    WorldCall& call = status.call.emplace();
    call.world = reader.bits();
    call.number = static_cast<uint64_t>(reader.number(1, std::numeric_limits<int64_t>::max()));
    call.purpose = reader.text();
  }
  const int64_t first = reader.number(1, kMostOperations);
  if (reader.failed()) return std::nullopt;
  status.history = History(first, reader.rest());
  return status;
}

}  // namespace fsdp::collectives
