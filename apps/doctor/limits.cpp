#include "doctor/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "console/units.h"

namespace trainer {

namespace {

constexpr uint64_t kFewFiles = 1024, kTooFewFiles = 64;
constexpr uint64_t kLittleDisk = 5'000'000'000, kTooLittleDisk = 50'000'000;

uint64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  const bool is_limited = getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : kUnlimited;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the C library chooses it (POSIX.1-2017, 8.2).
std::string locale_name() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const std::string value = variable(name); !value.empty()) return value;
  }
  return "";
}

std::string kernel_release() {
  utsname system{};
  return uname(&system) == 0 ? system.release : "";
}

// The supervision of ranks opens processes as files: pidfd_open(2).
Finding kernel_finding(const Limits& limits) {
  int major = 0, minor = 0;
  const bool is_known = std::sscanf(limits.kernel.c_str(), "%d.%d", &major, &minor) == 2;
  Finding finding{.subject = "kernel", .text = fmt::format("Linux {}", limits.kernel)};
  if (is_known && (major < 5 || (major == 5 && minor < 3))) {
    finding.verdict = Verdict::Problem;
    finding.text += "; 5.3 or newer is needed to start several ranks";
  }
  return finding;
}

Finding files_finding(const Limits& limits) {
  const uint64_t most = limits.open_files;
  Finding finding{.subject = "open files",
                  .text = most == kUnlimited ? "no limit" : fmt::format("{} at a time, per process", most)};
  if (most >= kFewFiles) return finding;
  finding.verdict = most < kTooFewFiles ? Verdict::Problem : Verdict::Note;
  finding.text += most < kTooFewFiles ? ": too few to start" : ": few for many ranks and many files of tokens";
  finding.mend = fmt::format("ulimit -n {}", 4 * kFewFiles);
  return finding;
}

Finding locked_finding(const Limits& limits, bool gpus) {
  if (limits.locked_bytes == kUnlimited) return {.subject = "locked memory", .text = "no limit"};
  Finding finding{.subject = "locked memory",
                  .text = fmt::format("{} per process; ranks on CPUs lock none", short_bytes(limits.locked_bytes))};
  if (!gpus) return finding;
  finding.verdict = Verdict::Note;
  finding.text = fmt::format("{} per process, and networks between GPUs lock more", short_bytes(limits.locked_bytes));
  finding.mend = "ulimit -l unlimited";
  return finding;
}

// Limits that are not usual, and spoken of only where they are.
void add_rare_limits(const Limits& limits, std::vector<Finding>& findings) {
  if (limits.file_bytes != kUnlimited) {
    findings.push_back(
        {.verdict = Verdict::Note,
         .subject = "file size",
         .text = fmt::format("at most {}: neither a checkpoint's file nor the memory that ranks share may "
                             "be larger",
                             short_bytes(limits.file_bytes)),
         .mend = "ulimit -f unlimited"});
  }
  if (limits.address_bytes != kUnlimited) {
    findings.push_back({.verdict = Verdict::Note,
                        .subject = "address space",
                        .text = fmt::format("at most {} per process: ranks that share memory reserve many times the "
                                            "model",
                                            short_bytes(limits.address_bytes)),
                        .mend = "ulimit -v unlimited"});
  }
  if (!limits.threads.empty()) {
    findings.push_back(
        {.subject = "threads", .text = fmt::format("{} per rank, as OMP_NUM_THREADS says", limits.threads)});
  }
}

Finding locale_finding(const Limits& limits) {
  if (limits.terminal.utf8) return {.subject = "locale", .text = limits.locale};
  const std::string found = limits.locale.empty() ? "none is set" : fmt::format("{} is not UTF-8", limits.locale);
  return {.verdict = Verdict::Note,
          .subject = "locale",
          .text = found + ": bars and curves are drawn in ASCII",
          .mend = "export LC_ALL=C.UTF-8"};
}

Finding terminal_finding(const Limits& limits) {
  if (!limits.terminal.interactive) {
    return {.subject = "terminal", .text = "none that can redraw a line: progress is told in lines"};
  }
  return {
      .subject = "terminal",
      .text = fmt::format("{} columns, {}", limits.columns, limits.terminal.colour ? "with colours" : "no colours")};
}

Finding folder_finding(const Limits& limits) {
  Finding finding{.subject = "working folder",
                  .text = fmt::format("{} free on its disk", short_bytes(limits.free_disk_bytes))};
  if (!limits.is_writable) {
    return {.verdict = Verdict::Problem,
            .subject = "working folder",
            .text = "it cannot be written, and runs are kept in it. Go to another, or name one with --run",
            .mend = "cd ~"};
  }
  if (limits.free_disk_bytes < kTooLittleDisk) {
    finding.verdict = Verdict::Problem;
    finding.text += ": too little for a run and a checkpoint. Go to a folder on another disk, or make room";
  } else if (limits.free_disk_bytes < kLittleDisk) {
    finding.verdict = Verdict::Note;
    finding.text += ": a checkpoint takes 12 bytes per parameter, and --keep limits how many there are";
  }
  return finding;
}

}  // namespace

Limits read_limits(const std::filesystem::path& folder) {
  Limits limits{.kernel = kernel_release(),
                .open_files = limit_of(RLIMIT_NOFILE),
                .locked_bytes = limit_of(RLIMIT_MEMLOCK),
                .file_bytes = limit_of(RLIMIT_FSIZE),
                .address_bytes = limit_of(RLIMIT_AS),
                .threads = variable("OMP_NUM_THREADS"),
                .locale = locale_name(),
                .terminal = standard_output(),
                .columns = terminal_width(),
                .is_writable = access(folder.c_str(), W_OK) == 0};
  struct statvfs system {};
  if (statvfs(folder.c_str(), &system) == 0) limits.free_disk_bytes = uint64_t{system.f_bavail} * system.f_frsize;
  return limits;
}

std::vector<Finding> findings_of(const Limits& limits, bool gpus) {
  std::vector<Finding> findings = {kernel_finding(limits), files_finding(limits), locked_finding(limits, gpus)};
  add_rare_limits(limits, findings);
  for (const Finding& finding : {locale_finding(limits), terminal_finding(limits), folder_finding(limits)}) {
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace trainer
