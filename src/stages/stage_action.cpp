#include "stages/stage_action.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

// Texts by kind.
constexpr std::array<std::string_view, StageAction::kKinds> kKindTexts = {
    "", "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

// Takes the digits at the text's beginning; none if there are none, or too many.
std::optional<int> take_number(std::string_view& text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number >= unsigned{kMostNumber}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return static_cast<int>(number);
}

}  // namespace

StageAction other_end(const StageAction& message) {
  StageAction other{.stage = message.stage, .micro_batch = message.micro_batch};
  const bool to_next = message.kind == Kind::SendForward || message.kind == Kind::ReceiveBackward;
  other.stage += to_next ? 1 : -1;
  switch (message.kind) {
    case Kind::SendForward:
      other.kind = Kind::ReceiveForward;
      break;
    case Kind::ReceiveForward:
      other.kind = Kind::SendForward;
      break;
    case Kind::SendBackward:
      other.kind = Kind::ReceiveBackward;
      break;
    default:
      other.kind = Kind::SendBackward;
      break;
  }
  return other;
}

std::string to_string(const StageAction& action) {
  if (action.kind == Kind::Idle) return "";
  std::string text = fmt::format("{}{}", action.stage, kKindTexts[static_cast<size_t>(action.kind)]);
  if (action.micro_batch >= 0) text += fmt::format("{}", action.micro_batch);
  return text;
}

std::optional<StageAction> action_of(std::string_view text) {
  if (text.empty()) return StageAction{};
  const std::optional<int> stage = take_number(text);
  if (!stage) return std::nullopt;
  for (int i = StageAction::kKinds - 1; i > 0; --i) {  // "RECV_B" before "B"
    const std::string_view name = kKindTexts[i];
    if (!text.starts_with(name)) continue;
    StageAction action{.kind = static_cast<Kind>(i), .stage = *stage};
    text.remove_prefix(name.size());
    if (is_pass(action.kind) || is_message(action.kind)) {
      const std::optional<int> micro_batch = take_number(text);
      if (!micro_batch) return std::nullopt;
      action.micro_batch = *micro_batch;
    }
    return text.empty() ? std::optional(action) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace fsdp::stages
