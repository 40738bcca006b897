#include "world/error_file.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fsdp::world {

namespace {

std::filesystem::path path_of(const std::filesystem::path& directory, int rank, Origin origin) {
  return directory / fmt::format("{}-{}", origin == Origin::Here ? "error" : "peer-error", rank);
}

}  // namespace

void write_error(const std::filesystem::path& directory, int rank, const RankError& error) {
  std::ofstream(path_of(directory, rank, error.origin)) << error.message;
}

RankError read_error(const std::filesystem::path& directory, int rank) {
  for (Origin origin : {Origin::Here, Origin::Peer})
    if (std::ifstream file(path_of(directory, rank, origin)); file)
      return {{std::istreambuf_iterator<char>(file), {}}, origin};
  return {};
}

void write_torchelastic_error(const std::filesystem::path& path, const std::string& message) {
  // torchrun's closing report shows the stack and nothing else where there is one.
  nlohmann::json extra = {{"py_callstack", message}, {"timestamp", std::to_string(std::time(nullptr))}};
  nlohmann::json error = {{"message", {{"message", message}, {"extraInfo", extra}}}};
  // A message may carry bytes of a user's that are no UTF-8.
  std::ofstream(path) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace fsdp::world
