#include "world/error_file.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/patience.h"
#include "files/wrapped.h"
#include "world/output.h"

namespace fsdp::world {

namespace {

constexpr size_t kReportBytes = size_t{64} << 10;
// For the supervisor, to print an error.
constexpr std::chrono::milliseconds kPrintTime{10000};
constexpr std::chrono::milliseconds kLookAtPrinted{1};

}  // namespace

struct RankErrors::Report {
  std::atomic<bool> written;  // last
  std::atomic<bool> printed;
  std::atomic<bool> returned;
  Origin origin;
  uint32_t bytes;
  char message[kReportBytes - 3 * sizeof(uint32_t)];
};

// Pages that are not written take no memory.
RankErrors::RankErrors(int ranks)
    : ranks_(ranks),
      supervisor_(getpid()),
      news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      error_stream_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)),
      bytes_(static_cast<size_t>(ranks) * sizeof(Report)) {
  FSDP_CHECK(news_.is_open(),
             "the reports of {} ranks cannot be watched: {}. Raise the limit of open files (ulimit -n).", ranks,
             std::strerror(errno));
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FSDP_CHECK(memory != MAP_FAILED, "no memory is left for the reports of {} ranks: {}.", ranks, std::strerror(errno));
  reports_ = static_cast<Report*>(memory);
}

RankErrors::~RankErrors() { munmap(reports_, bytes_); }

// A rank dies with the supervisor, but not before its error is printed.
void RankErrors::report(int rank, const RankError& error) {
  prctl(PR_SET_PDEATHSIG, 0);
  Report& report = reports_[rank];
  report.origin = error.origin;
  report.bytes = static_cast<uint32_t>(error.message.copy(report.message, sizeof report.message));
  report.written.store(true);
  eventfd_write(news_.number(), 1);
  wait_until_printed(report);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == supervisor_) return;
  if (!report.printed.load())
    write_patiently(error_stream_.number(), files::shown_on(error_stream_.number(), error.message) + "\n");
  std::raise(SIGKILL);
}

void RankErrors::wait_until_printed(const Report& report) const {
  for (Patience patience(kPrintTime); !report.printed.load() && getppid() == supervisor_ && !patience.is_over();)
    std::this_thread::sleep_for(kLookAtPrinted);
}

void RankErrors::note_printed(int rank) { reports_[rank].printed.store(true); }
bool RankErrors::is_printed(int rank) const { return reports_[rank].printed.load(); }

void RankErrors::read_news() {
  eventfd_t count = 0;
  eventfd_read(news_.number(), &count);
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
