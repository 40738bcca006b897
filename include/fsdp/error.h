// The one exception type of this library.
#pragma once

#include <stdexcept>
#include <string>

namespace fsdp {

// An error that a user can cause and mend: a wrong option, a bad file, a rank that died. The message says where (rank
// and unit), what, what was found and expected, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fsdp
