// Errors as problems, so that all of them are found.
#pragma once

#include <fsdp/error.h>

#include <string>
#include <vector>

namespace trainer {

// An error that `find` throws becomes a problem.
template <typename Find>
void collect_problems(std::vector<std::string>& problems, Find find) try {
  find();
} catch (const fsdp::Error& error) {
  problems.emplace_back(error.what());
}

}  // namespace trainer
