// Which of the recorded operators some storages' bytes follow from.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "deferred/recorded_operator.h"

namespace fsdp::deferred {

// In their order, those before operator number `end` that have a part in the bytes that the storages have then. An
// operator whose result is written over before it is read has none.
std::vector<size_t> needed_operators(const std::vector<RecordedOperator>& operators, std::set<int> storages,
                                     size_t end);

}  // namespace fsdp::deferred
