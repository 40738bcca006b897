#include "report/watch.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <signal.h>

#include <algorithm>

#include "files/durable_file.h"
#include "files/file_lock.h"
#include "report/page.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// While it lives, the signals that ask to end wait.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // One that came, or comes within that time; 0: none.
  int wait(std::chrono::milliseconds time) const {
    const timespec most{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
    return std::max(sigtimedwait(&signals_, nullptr, &most), 0);
  }

 private:
  sigset_t signals_{}, before_{};
};

bool any_is_running(const std::vector<RunFolder>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunFolder& run) { return run.status == RunStatus::Running; });
}

bool any_is_locked(const std::vector<fs::path>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [](const fs::path& folder) { return fsdp::files::is_lock_held(folder / "lock"); });
}

class Watch {
 public:
  Watch(const std::vector<fs::path>& folders, const fs::path& file, const WatchOptions& options)
      : folders_(folders), file_(file), options_(options) {}

  // True if there is more to come.
  bool write() try {
    const bool may_begin = any_is_locked(folders_);  // asked first: what it says of a file is then not older
    try {
      runs_ = read_runs(folders_);
    } catch (const fsdp::Error&) {
      if (!may_begin) throw;
      tell_once("waits for the first step");
      return true;
    }
    const bool goes_on = any_is_running(runs_);
    put(goes_on);
    if (goes_on) {
      tell_once(fmt::format("{}: written every {:.3g} seconds while a run goes on; Ctrl-C ends that", file_.string(),
                            std::chrono::duration<double>(options_.interval).count()));
    }
    return goes_on;
  } catch (const fsdp::Error& error) {
    if (!has_written_) throw;
    options_.tell(fmt::format("{} The page is not written this time.", error.what()));
    return true;
  }

  void write_last() {
    if (has_written_) put(/*goes_on=*/false);
  }

 private:
  void put(bool goes_on) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.interval).count();
    const int reload = goes_on ? std::max(1, static_cast<int>(seconds)) : 0;
    fsdp::files::write_durably(file_, report_page(runs_, {.groups = options_.groups, .reload_seconds = reload}));
    has_written_ = true;
  }

  void tell_once(const std::string& text) {
    if (text != told_) options_.tell(text);
    told_ = text;
  }

  const std::vector<fs::path>& folders_;
  const fs::path& file_;
  const WatchOptions& options_;
  std::vector<RunFolder> runs_;
  bool has_written_ = false;
  std::string told_;
};

}  // namespace

int watch_report(const std::vector<fs::path>& folders, const fs::path& file, const WatchOptions& options) {
  const HeldSignals signals;
  Watch watch(folders, file, options);
  while (watch.write()) {
    const int signal = signals.wait(options.interval);
    if (signal == 0) continue;
    watch.write_last();
    return signal;
  }
  return 0;
}

}  // namespace trainer
