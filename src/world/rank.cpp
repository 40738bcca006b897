#include "world/rank.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "collectives/group.h"
#include "world/error_file.h"
#include "world/rendezvous.h"
#include "world/state.h"

namespace fsdp::world {

namespace {

// The ranks of a host share its cores, unless the user has decided.
void choose_threads(int local_size) {
  const char* chosen = std::getenv("OMP_NUM_THREADS");
  if (chosen && *chosen) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  at::set_num_threads(std::max(1, CPU_COUNT(&allowed) / local_size));
}

std::string with_prefix(const std::string& message) {
  return message.rfind("[fsdp", 0) == 0 ? message : message_prefix() + message;
}

// What the exception in flight says.
RankError current_error() {
  try {
    throw;
  } catch (const collectives::PeerLost& error) {
    return {error.what(), Origin::Peer};
  } catch (const c10::Error& error) {
    return {with_prefix(error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {with_prefix(error.what())};
  } catch (...) {
    return {with_prefix("the rank threw something that is no std::exception")};
  }
}

}  // namespace

int run_rank(const Identity& identity, const std::function<void(World&)>& body,
             const std::function<std::shared_ptr<State>()>& connect,
             const std::function<void(const RankError&)>& on_failure) {
  set_message_rank(identity.rank, identity.size);
  std::shared_ptr<State> state;
  try {
    choose_threads(identity.local_size);
    state = connect();
    World world(state);
    body(world);
    return 0;
  } catch (...) {
    RankError error = current_error();
    std::cout.flush();
    std::cerr << error.message + "\n" << std::flush;
    on_failure(error);
    return 1;
  }
}

int run_alone(const LaunchOptions& options, const std::function<void(World&)>& body) {
  Identity alone;
  return run_rank(
      alone, body, [&] { return std::make_shared<State>(alone, options.backend, options.timeout, nullptr); },
      [](const RankError&) {});
}

int run_launched(const LauncherJob& job, const LaunchOptions& options, const std::function<void(World&)>& body) {
  std::unique_ptr<Rendezvous> rendezvous;
  auto connect = [&] {
    rendezvous = std::make_unique<Rendezvous>(job, options.timeout);
    return std::make_shared<State>(job.identity, options.backend, options.timeout, rendezvous->store(),
                                   std::vector<int>(), std::nullopt, rendezvous->own_address());
  };
  auto on_failure = [&](const RankError& error) {
    if (!job.error_file.empty()) write_torchelastic_error(job.error_file, error.message);
  };
  int code = run_rank(job.identity, body, connect, on_failure);
  if (rendezvous) rendezvous->finish(code == 0);
  return code;
}

int run_forked(const Identity& identity, const std::filesystem::path& directory, const LaunchOptions& options,
               const std::function<void(World&)>& body) {
  auto connect = [&] {
    auto store = open_file_store(directory, identity.size, options.timeout);
    return std::make_shared<State>(identity, options.backend, options.timeout, std::move(store));
  };
  auto on_failure = [&](const RankError& error) { write_error(directory, identity.rank, error); };
  return run_rank(identity, body, connect, on_failure);
}

}  // namespace fsdp::world
