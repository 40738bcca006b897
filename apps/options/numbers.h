// Numbers as people type them on a command line: 300, 1e-3, 2_000, 16k, 1.5M, 64GB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

// The whole of `text` as a number; none where it is no number. Between digits there may be _; after them k, M, G or
// T multiplies by a thousand, a million, a billion or a trillion. A whole number beyond the type's range is the nearest
// that it has.
std::optional<int64_t> whole_number_in(const std::string& text);  // 1e6 and 1.5k are whole
std::optional<double> number_in(const std::string& text);         // also inf and nan

// A number of bytes: as above, with a B at its end or without (64GB), or by a power of 1024 (64GiB).
std::optional<double> bytes_in(const std::string& text);

}  // namespace trainer
