// UTF-8 as RFC 3629 has it: the shortest form alone, and no surrogates.
#pragma once

#include <cstddef>
#include <string_view>

namespace data {

// Bytes of `text` before the first that is no part of a whole character; all of them where there is none. Pure.
size_t valid_utf8_bytes(std::string_view text);

}  // namespace data
