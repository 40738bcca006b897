#include "data/cache_lock.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache_entry.h"
#include "data/pending_folder.h"

namespace data {

namespace fs = std::filesystem;

namespace {

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

// The holder is text such as "process 4711 on gpu3", from FileLock. Processes of other hosts cannot be asked.
bool has_died(std::string_view holder) {
  constexpr std::string_view kProcess = "process ", kOn = " on ";
  const size_t on = holder.find(kOn);
  if (!holder.starts_with(kProcess) || on == std::string_view::npos) return false;
  pid_t process = 0;
  const auto [end, error] = std::from_chars(holder.data() + kProcess.size(), holder.data() + on, process);
  if (error != std::errc() || end != holder.data() + on || process <= 0) return false;
  return holder.substr(on + kOn.size()) == this_host() && kill(process, 0) != 0 && errno == ESRCH;
}

// The working process holds the lock.
void remove_leftovers(const fs::path& cache) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (fs::directory_iterator entry(cache, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const EntryKind kind = entry_kind(pending_target(entry->path().filename().string()));
    const fs::file_type found = entry->symlink_status(ignored).type();
    if ((kind == EntryKind::Tokens && found == fs::file_type::directory) ||
        (kind == EntryKind::Model && found == fs::file_type::regular)) {
      leftovers.push_back(entry->path());
    }
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

}  // namespace

CacheLock::CacheLock(const fs::path& cache) {
  const auto refuse = [&](const std::string& reason) {
    throw fsdp::Error(fmt::format("cache '{}' cannot be used: {} Name another folder.", cache.string(), reason));
  };
  std::error_code error;
  fs::create_directories(cache, error);
  if (error || !fs::is_directory(cache, error)) refuse(error ? error.message() + "." : "Not a directory.");
  constexpr std::chrono::milliseconds kRound{500};
  // A new holder writes its name a moment after it has the lock: until then the name is that of the one before.
  std::string dead;
  while (!lock_) {
    try {
      lock_.emplace(cache / "lock", kRound);
    } catch (const fsdp::files::LockHeld& held) {
      if (has_died(held.holder()) && held.holder() == dead) refuse(held.what());
      dead = has_died(held.holder()) ? held.holder() : "";
    } catch (const fsdp::Error& failure) {
      refuse(failure.what());
    }
  }
  remove_leftovers(cache);
}

}  // namespace data
