// Errors as problems, so that all of them are found.
#pragma once

#include <fmt/format.h>
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

// As above, for an error with the value of an option, which its problem begins with.
template <typename Find>
void collect_problems_of(const char* flag, std::vector<std::string>& problems, Find find) try {
  find();
} catch (const fsdp::Error& error) {
  problems.push_back(fmt::format("{}: {}", flag, error.what()));
}

}  // namespace trainer
