#include "world/error_file.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fsdp::world {

namespace {

constexpr size_t kReportBytes = size_t{64} << 10;

}  // namespace

struct RankErrors::Report {
  std::atomic<bool> written;  // last
  std::atomic<bool> returned;
  Origin origin;
  uint32_t bytes;
  char message[kReportBytes - 3 * sizeof(uint32_t)];
};

// Pages that are not written take no memory.
RankErrors::RankErrors(int ranks) : bytes_(static_cast<size_t>(ranks) * sizeof(Report)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FSDP_CHECK(memory != MAP_FAILED, "no memory is left for the reports of {} ranks: {}.", ranks, std::strerror(errno));
  reports_ = static_cast<Report*>(memory);
}

RankErrors::~RankErrors() { munmap(reports_, bytes_); }

void RankErrors::write(int rank, const RankError& error) {
  Report& report = reports_[rank];
  report.origin = error.origin;
  report.bytes = static_cast<uint32_t>(error.message.copy(report.message, sizeof report.message));
  report.written.store(true);
}

RankError RankErrors::read(int rank) const {
  const Report& report = reports_[rank];
  if (!report.written.load()) return {};
  return {{report.message, report.bytes}, report.origin};
}

void RankErrors::note_return(int rank) { reports_[rank].returned.store(true); }
bool RankErrors::has_returned(int rank) const { return reports_[rank].returned.load(); }

void write_torchelastic_error(const std::filesystem::path& path, const std::string& message) {
  // torchrun's closing report shows the stack and nothing else where there is one.
  nlohmann::json extra = {{"py_callstack", message}, {"timestamp", std::to_string(std::time(nullptr))}};
  nlohmann::json error = {{"message", {{"message", message}, {"extraInfo", extra}}}};
  // A message may carry bytes of a user's that are no UTF-8.
  std::ofstream(path) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace fsdp::world
