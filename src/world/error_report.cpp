#include "world/error_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fsdp::world {

namespace {

// For the other ranks, to report as well.
constexpr std::chrono::milliseconds kTogether{300};

// A message without its rank.
struct Message {
  std::string head;  // "[fsdp unit=blocks.4]"
  std::string text;
  bool operator==(const Message&) const = default;
};

Message message_of(const ErrorOfRank& error, int ranks) {
  const std::string start = fmt::format("[fsdp rank {}/{}", error.rank, ranks);
  const std::string& whole = error.error.message;
  const size_t end = whole.find("] ");
  if (!whole.starts_with(start) || end == std::string::npos) return {"[fsdp]", whole};
  return {"[fsdp" + whole.substr(start.size(), end + 1 - start.size()), whole.substr(end + 2)};
}

// True if `one` quotes the message of `cause`, behind words of its own.
bool quotes(const ErrorOfRank& one, const ErrorOfRank& cause) {
  const std::string &message = one.error.message, &quoted = cause.error.message;
  return quoted.size() < message.size() && message.find(quoted) != std::string::npos;
}

bool follows_from(const ErrorOfRank& one, const ErrorOfRank& cause) {
  return cause.error.origin == Origin::Here && (one.error.origin == Origin::Peer || quotes(one, cause));
}

std::string names_of(const std::vector<int>& some, int ranks) {
  if (static_cast<int>(some.size()) == ranks) return fmt::format("all {} ranks", ranks);
  return fmt::format("ranks {}", fmt::join(some, ", "));
}

}  // namespace

std::string error_lines(const std::vector<ErrorOfRank>& errors, int ranks, const std::vector<ErrorOfRank>& printed) {
  struct Group {
    Message message;
    std::vector<int> ranks;
    std::string whole;  // the first one's
  };
  std::vector<Group> groups;
  for (const ErrorOfRank& one : errors) {
    const auto is_cause = [&](const ErrorOfRank& other) { return follows_from(one, other); };
    Message message = message_of(one, ranks);
    const auto is_same = [&](const ErrorOfRank& other) { return message_of(other, ranks) == message; };
    if (std::ranges::any_of(errors, is_cause) || std::ranges::any_of(printed, is_cause) ||
        std::ranges::any_of(printed, is_same)) {
      continue;
    }
    const auto group = std::ranges::find(groups, message, &Group::message);
    if (group == groups.end()) {
      groups.push_back({std::move(message), {one.rank}, one.error.message});
    } else {
      group->ranks.push_back(one.rank);
    }
  }
  std::string lines;
  for (const Group& group : groups) {
    const auto& [message, of, whole] = group;
    lines += of.size() == 1 ? whole : fmt::format("{} {}: {}", message.head, names_of(of, ranks), message.text);
    lines += "\n";
  }
  return lines;
}

std::optional<std::string> ErrorReport::due(const std::function<bool(int rank)>& may_report) {
  errors_.read_news();
  waiting_.clear();
  bool all_have_come = true;
  for (int rank = 0; rank < errors_.ranks(); ++rank) {
    const RankError error = errors_.read(rank);
    all_have_come &= !error.message.empty() || !may_report(rank);
    if (!error.message.empty() && !errors_.is_printed(rank)) waiting_.push_back({rank, error});
  }
  if (waiting_.empty()) return std::nullopt;
  if (!patience_) patience_.emplace(kTogether);
  if (!all_have_come && !patience_->is_over()) return std::nullopt;
  return error_lines(waiting_, errors_.ranks(), printed_);
}

void ErrorReport::note_printed() {
  patience_.reset();
  for (ErrorOfRank& one : waiting_) {
    errors_.note_printed(one.rank);
    printed_.push_back(std::move(one));
  }
  waiting_.clear();
}

std::optional<std::chrono::milliseconds> ErrorReport::until_next_look() const {
  return patience_ ? std::optional(patience_->until_next_look()) : std::nullopt;
}

}  // namespace fsdp::world
