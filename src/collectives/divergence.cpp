#include "collectives/divergence.h"

#include <fmt/format.h>

#include "base/rank_names.h"
namespace fsdp::collectives {

namespace {

constexpr std::string_view kCalls = "calls ";
constexpr std::string_view kEnters = "enters ";  // an operation of a World, once its ranks have begun it

}  // namespace

std::string remedy_for_call(const std::string& action) {
  if (!action.starts_with(kCalls)) return "";
  const std::string call = action.substr(kCalls.size(), action.find(' ', kCalls.size()) - kCalls.size());
  return fmt::format(
      "{} is a call of all ranks. Call it on every rank, and not inside `if (rank == 0)`; all ranks leave a loop after "
      "the same step (any_rank_has_batch).",
      call);
}

bool is_same_operation(std::string_view one, std::string_view other) {
  return one == other || (one.starts_with(kComparedCall) && other.starts_with(kComparedCall));
}

std::string divergence_text(const Doing& one, const Doing& other, const std::string& detail) {
  const Doing &first = one.rank < other.rank ? one : other, &second = one.rank < other.rank ? other : one;
  const std::string of_one = remedy_for_call(one.action), of_other = remedy_for_call(other.action);
  const std::string& without_call = of_one.empty() ? one.action : other.action;
  const bool one_calls = of_one.empty() != of_other.empty() && !without_call.starts_with(kEnters);
  return fmt::format("{} {} where {} {}{}. {}", text_of_rank(first.rank), first.action, text_of_rank(second.rank),
                     second.action, detail,
                     one_calls ? of_one + of_other
                               : "Every rank must run the same part of the model and make the same calls, in the same "
                                 "order; does its control flow depend on the data? Where one rank alone reads a "
                                 "parameter, for a log or an evaluation, let every rank do it.");
}

std::string early_return_text(int rank, const Doing& here) {
  const std::string remedy = remedy_for_call(here.action);
  return fmt::format("{} has returned early, or destroyed the model, while {} {}. {}", text_of_rank(rank),
                     text_of_rank(here.rank), here.action,
                     remedy.empty() ? "All ranks must take the same number of steps and return together: deal out the "
                                      "data evenly, or ask any_rank_has_batch before each step."
                                    : remedy);
}

}  // namespace fsdp::collectives
