#include "world/rendezvous.h"

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "base/patience.h"
#include "world/addresses.h"
#include "world/guarded_store.h"
#include "world/local_rendezvous.h"
#include "world/membership.h"
#include "world/patient_store.h"

namespace fsdp::world {

namespace {

constexpr char kEndedKey[] = "fsdp/ended";

// The ranks of one mpirun have one parent; with its start time it is not mistaken for an earlier one of that number.
std::string parent_name() {
  std::ifstream file(fmt::format("/proc/{}/stat", getppid()));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  constexpr int kStartTime = 20;  // counted behind the process's name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  return fmt::format("{}-{}", getppid(), field);
}

// Once for the job: the ranks know each other by nothing that others do not know too.
void warn_of_strangers(const LauncherJob& job, const std::string& place) {
  std::cerr
      << fmt::format(
             "{}warning: any program that reaches the job's store at {} can join this job, since its secret is {}. Set "
             "FSDP_JOB_SECRET to a random text, alike on every rank (openssl rand -hex 16 makes one).\n",
             message_prefix(), place, job.secret.text.empty() ? "none" : job.secret.source + ", which others can guess")
      << std::flush;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_file_store(const files::Descriptor& file, int size) {
  return c10::make_intrusive<c10d::FileStore>(path_of(file), size);
}

Rendezvous::Rendezvous(const LauncherJob& job, std::chrono::milliseconds timeout)
    : timeout_(timeout), size_(job.identity.size) {
  switch (job.rendezvous) {
    case RendezvousPlace::Alone:
      break;
    case RendezvousPlace::OneHost:
      rendezvous_on_this_host(job);
      break;
    case RendezvousPlace::FirstRank:
      rendezvous_at_first_rank(job);
      break;
    case RendezvousPlace::Agent:
      rendezvous_at_agent(job);
      break;
  }
}

void Rendezvous::rendezvous_on_this_host(const LauncherJob& job) {
  file_ = rendezvous_on_host(job.id.empty() ? parent_name() : job.id, job.identity.rank, size_, timeout_);
  store_ = open_file_store(file_, size_);
}

// The server itself would listen everywhere: it is given a socket that others than the ranks cannot reach, as far as
// that can be told from the address.
void Rendezvous::rendezvous_at_first_rank(const LauncherJob& job) {
  hosts_ = job.identity.rank == 0;
  const auto addresses = job.one_host ? std::vector<std::string>{"127.0.0.1"} : addresses_of(job.address);
  // Rank 0 may listen at any of several: with the name, all are tried.
  ListeningSocket listener{addresses.size() == 1 ? addresses.front() : job.address, -1};
  if (hosts_) listener = listen_at(addresses.empty() ? std::vector{job.address} : addresses, job.port);
  connect(job, listener.address, listener.socket);
  own_address_ = hosts_ ? listener.address : own_address_towards(addresses_of(listener.address), job.port);
  guard(job, listener.address);
}

void Rendezvous::rendezvous_at_agent(const LauncherJob& job) {
  connect(job, job.address, -1);
  own_address_ = own_address_towards(addresses_of(job.address), job.port);
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("/worker/attempt_{}", job.attempt), store_);
  guard(job, job.address);
}

void Rendezvous::guard(const LauncherJob& job, const std::string& address) {
  const std::string place = with_port(address, job.port);
  if (job.identity.rank == 0 && !job.one_host && job.secret.others_can_guess) warn_of_strangers(job, place);
  check_members(*store_, job.secret, job.identity, place);
  store_ = c10::make_intrusive<GuardedStore>(store_, job.secret.text);
}

void Rendezvous::connect(const LauncherJob& job, const std::string& address, int listening_socket) {
  c10d::TCPStoreOptions options;
  options.port = job.port;
  options.isServer = hosts_;
  options.numWorkers = size_;
  options.waitWorkers = false;
  options.timeout = timeout_;
  if (listening_socket >= 0) options.masterListenFd = listening_socket;
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const std::exception& failure) {
    std::string text = failure.what();
    FSDP_CHECK(false,
               "the job's store at {} ({}) could not be {} within {} ms: {}. Check MASTER_ADDR and MASTER_PORT, "
               "and that rank 0 has started.",
               with_port(address, job.port), job.launcher, hosts_ ? "opened" : "reached", timeout_.count(),
               text.substr(0, text.find('\n')));
  }
}

c10::intrusive_ptr<c10d::Store> Rendezvous::store_of(int launch, std::chrono::milliseconds timeout) const {
  if (!store_) return {};
  auto store = c10::make_intrusive<PatientStore>(fmt::format("launch{}", launch), store_);
  store->setTimeout(timeout);
  return store;
}

void Rendezvous::finish(int launch, bool success, std::chrono::milliseconds timeout) const {
  const auto store = store_of(launch, timeout);
  if (!store) return;
  try {
    store->add(kEndedKey, 1);
    Patience patience(timeout);
    while (hosts_ && success && store->add(kEndedKey, 0) < size_ && !patience.is_over())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const std::exception&) {
    // The store went away with the rank that hosted it: there is no rank left to wait for.
  }
}

}  // namespace fsdp::world
