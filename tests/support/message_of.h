// Messages of errors.
#pragma once

#include <exception>
#include <string>

namespace fsdp::testing {

// The message of what `body` throws; "no error" when it throws nothing. `Expected` narrows what may be thrown.
template <typename Expected = std::exception, typename Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace fsdp::testing
