#include "world/rank.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/rank_names.h"
#include "base/rank_thread.h"
#include "base/unfinished_work.h"
#include "collectives/group.h"
#include "files/wrapped.h"
#include "world/error_file.h"
#include "world/patient_store.h"
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

// The message of the exception in flight.
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

// The first launch of a process finds the others of its job, and later ones reuse its connections: a fast rank launches
// again before the others have ended. It lives to the end of the process, because the last launch is unknown. A
// destructor at exit would wait for threads, which a child of the user's own does not have.
struct Launches {
  std::unique_ptr<Rendezvous> rendezvous;
  int count = 0;
};

// A model may outlive the function, for example as a global variable. A rank that was forked ends without destroying
// it, so its saves are waited for here.
struct WaitsForWork {
  ~WaitsForWork() { wait_for_unfinished_work(); }
};

c10::intrusive_ptr<c10d::Store> patient_store(const c10::intrusive_ptr<c10d::Store>& store,
                                              const LaunchOptions& options) {
  auto part = c10::make_intrusive<PatientStore>("launch", store);
  part->setTimeout(options.timeout);
  return part;
}

void print_failure(const RankError& error) { files::show_error(error.message + "\n"); }

Launches& launches_of_this_process() {
  static auto* const launches = new Launches;
  return *launches;
}

}  // namespace

int run_rank(const Identity& identity, const std::function<void(World&)>& body,
             const std::function<std::shared_ptr<State>()>& connect,
             const std::function<void(const RankError&)>& on_failure) {
  set_this_rank(identity.rank, identity.size);
  std::shared_ptr<State> state;
  try {
    choose_threads(identity.local_size);
    state = connect();
    World world(state);
    const WaitsForWork at_end;
    body(world);
    return 0;
  } catch (...) {
    RankError error = current_error();
    if (state) state->note_exception();
    std::cout.flush();
    on_failure(error);
    return 1;
  }
}

int run_alone(const LaunchOptions& options, const std::function<void(World&)>& body) {
  Identity alone;
  return run_rank(
      alone, body, [&] { return std::make_shared<State>(alone, options.backend, options.timeout, nullptr); },
      print_failure);
}

int run_launched(const LauncherJob& job, const LaunchOptions& options, const std::function<void(World&)>& body) {
  Launches& launches = launches_of_this_process();
  const int launch = ++launches.count;
  auto connect = [&] {
    if (!launches.rendezvous) launches.rendezvous = std::make_unique<Rendezvous>(job, options.timeout);
    return std::make_shared<State>(job.identity, options.backend, options.timeout,
                                   launches.rendezvous->store_of(launch, options.timeout), std::vector<int>(),
                                   std::nullopt, launches.rendezvous->own_address());
  };
  auto on_failure = [&](const RankError& error) {
    print_failure(error);
    if (!job.error_file.empty()) write_torchelastic_error(job.error_file, error.message);
  };
  int code = run_rank(job.identity, body, connect, on_failure);
  if (launches.rendezvous) launches.rendezvous->finish(launch, code == 0, options.timeout);
  return code;
}

int run_forked(const Identity& identity, LauncherShares& shares, const LaunchOptions& options,
               const std::function<void(World&)>& body) {
  auto connect = [&] {
    auto state = std::make_shared<State>(identity, options.backend, options.timeout,
                                         patient_store(open_file_store(shares.store, identity.size), options));
    if (shares.memory != nullptr)
      state->hold_in(memory::held_backing(std::make_shared<memory::HeldRank>(*shares.memory, identity.rank)));
    return state;
  };
  auto on_failure = [&](const RankError& error) { shares.errors.report(identity.rank, error); };
  const int code = run_rank(identity, body, connect, on_failure);
  if (code == 0) shares.errors.note_return(identity.rank);
  return code;
}

int run_thread(const Identity& identity, const c10::intrusive_ptr<c10d::Store>& store, const LaunchOptions& options,
               const std::function<void(World&)>& body, const std::function<void(const RankError&)>& on_failure) {
  const RankScope scope;
  auto connect = [&] {
    return std::make_shared<State>(identity, options.backend, options.timeout, patient_store(store, options));
  };
  return run_rank(identity, body, connect, on_failure);
}

}  // namespace fsdp::world
