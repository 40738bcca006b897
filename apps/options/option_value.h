// Values on their way into options and out of them.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "options/option_table.h"

namespace trainer {

// A value as a configuration file has it.
using Scalar = std::variant<bool, int64_t, double, std::string>;

// The value of a text on the command line: of the option's type where it can be read so, otherwise the text.
Scalar scalar_of(const Row& row, const std::string& text);

// Sets the option, if the value may be one of it. Otherwise nothing changes, and the result is what to say after the
// option's name: " is 0; it must be at least 1.", ": 'many' is not a whole number.".
std::string assign(const Row& row, AllOptions& options, const Scalar& value);

// None for an option that is not set: an empty text, or nothing at all.
std::optional<Scalar> value_of(const Row& row, const AllOptions& options);
// As above, of an option of train.
std::optional<Scalar> value_of(const Row& row, const RunOptions& options);

// As it was before anything was read.
void reset(const Row& row, AllOptions& options);

// "0.001", "300", "true", "full-shard".
std::string shown(const Scalar& value);

}  // namespace trainer
