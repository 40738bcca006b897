// Facts about an operator that a recording needs before the call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>

namespace fsdp::deferred {

const std::string& name_of(const c10::OperatorHandle& operation);

// Reads and writes no bytes: changes what a tensor says of itself, or gives it other bytes.
bool leaves_bytes_alone(const c10::OperatorHandle& operation);
// Makes a tensor with bytes of its own.
bool makes_empty(const c10::OperatorHandle& operation);
// Makes a tensor of a size that is given, of nothing else, as empty, zeros and full do.
bool makes_of_size(const c10::OperatorHandle& operation);
// Random numbers.
bool draws_numbers(const c10::OperatorHandle& operation);
// Writes all of its first argument, and reads none of it.
bool replaces_first(const c10::OperatorHandle& operation);
// Gives something that is no tensor.
bool gives_values(const c10::OperatorHandle& operation);
// Gives arguments that it writes, in their order, or nothing.
bool gives_what_it_writes(const c10::OperatorHandle& operation);
bool writes(const c10::OperatorHandle& operation, size_t argument);

}  // namespace fsdp::deferred
