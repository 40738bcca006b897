#include "world/error_file.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fsdp::world {

std::filesystem::path error_path(const std::filesystem::path& directory, int rank) {
  return directory / fmt::format("error-{}", rank);
}

void write_error(const std::filesystem::path& path, const std::string& message) { std::ofstream(path) << message; }

std::string read_error(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_torchelastic_error(const std::filesystem::path& path, const std::string& message) {
  nlohmann::json extra = {{"py_callstack", ""}, {"timestamp", std::to_string(std::time(nullptr))}};
  nlohmann::json error = {{"message", {{"message", message}, {"extraInfo", extra}}}};
  // A message may carry bytes of a user's that are no UTF-8.
  std::ofstream(path) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace fsdp::world
