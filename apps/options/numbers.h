// Numbers as people type them on a command line: 300, 1e-3, 2_000, 16k, 1.5M, 64GB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

// The whole of `text` as a number; none where it is no number. Between digits there may be _; after them k, M, G or
// T multiplies by a thousand, a million, a billion or a trillion. None as well for a number that the type does not
// have.
std::optional<int64_t> whole_number_in(const std::string& text);  // 1e6 and 1.5k are whole, up to 2^53
std::optional<double> number_in(const std::string& text);         // also inf and nan

// For messages, as number_in: a number that is too large is infinite, and one that is too small is 0.
std::optional<double> rough_number_in(const std::string& text);

inline constexpr double kExactWhole = 9007199254740992;  // 2^53: above it not every whole number is one of fp64

// A number of bytes: as above, with a B at its end or without (64GB), or by a power of 1024 (64GiB).
std::optional<double> bytes_in(const std::string& text);

}  // namespace trainer
