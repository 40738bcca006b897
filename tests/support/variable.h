// A variable of the environment for as long as this lives: for this process and the ranks that it starts.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>

namespace fsdp::testing {

class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

// Shared memory whose gathers copy, wherever the ranks lie.
class CopyingGathers {
 private:
  Variable variable_{"FSDP_SHM_GATHER", "copy"};
};

}  // namespace fsdp::testing
