// The words for ranks that do different things. They are the same on each of these ranks, so that `launch` prints them
// once.
#pragma once

#include <string>
#include <string_view>

namespace fsdp::collectives {

struct Doing {
  int rank = 0;        // as messages name it
  std::string action;  // in words that follow "rank 1 ": "gathers unit head", "calls save_checkpoint"
};

// The words for a call that compares its facts (call_facts.h) begin so: "calls World::all_reduce_".
inline constexpr std::string_view kComparedCall = "calls World::";
// Returns whether ranks with these actions begin one operation. Calls that compare their facts do: the facts say how
// they differ. Pure.
bool is_same_operation(std::string_view one, std::string_view other);

// "rank 0 calls save_checkpoint where rank 1 reduces unit head, so no rank can continue. ...", and the remedy. `detail`
// follows the two actions. Pure.
std::string divergence_text(const Doing& one, const Doing& other, const std::string& detail);

// As above, of a rank that has returned from the program's function, or whose model is destroyed, while `here` waits
// for it. Pure.
std::string early_return_text(int rank, const Doing& here);

// The remedy if one rank is in a call of all ranks and another is not: "save_checkpoint is a call of all ranks. ...".
// Empty: `action` is no such call. Pure.
std::string remedy_for_call(const std::string& action);

}  // namespace fsdp::collectives
