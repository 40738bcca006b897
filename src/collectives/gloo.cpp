// The gloo backend: c10d's Gloo process group as a Transport, with its errors in words of ours.
//
// A device thread of Gloo's moves the bytes. Destroying a message that is under way detaches its memory: Gloo closes
// the connection rather than touch it. Gloo tells only a waiting thread that a message is over, so if a message is
// asked whether it is, a further thread waits for it from then on. Gloo's own deadlines close all connections of a
// group and count time in which this process was stopped, so an alarm of ours ends a wait.
#ifndef USE_C10D_GLOO  // LibTorch's own CMake files may say so already
#define USE_C10D_GLOO
#endif
#include <sched.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rank_names.h"
#include "collectives/alarm.h"
#include "collectives/backends.h"
#include "collectives/exchange_group.h"
#include "collectives/waiting_threads.h"

namespace fsdp::collectives {

namespace {

using c10d::ProcessGroupGloo;

// Gloo tells its failures apart by their text alone.
bool is_timeout(const std::string& text) {
  return text.find("imed out") != std::string::npos || text.find("imeout after") != std::string::npos;
}

// Given to Gloo instead of a timeout.
constexpr std::chrono::hours kForEver{10 * 365 * 24};

enum class Arrival { Arrived, Aborted, Closed };

Arrival wait_for_work(c10d::Work& work) {
  try {
    return work.wait(kForEver) ? Arrival::Arrived : Arrival::Aborted;
  } catch (const std::exception&) {
    return Arrival::Closed;
  }
}

// The wait of a further thread, which uses the work until the wait is over. Shared with it.
class WaitBeside {
 public:
  void run(c10d::Work& work) {
    const Arrival found = wait_for_work(work);
    const std::lock_guard lock(mutex_);
    found_ = found;
    changed_.notify_all();
  }
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return found_.has_value();
  }
  Arrival wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return found_.has_value(); });
    return *found_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Arrival> found_;
};

class GlooMessage final : public Message {
 public:
  // The alarm and the threads outlive the message.
  GlooMessage(c10::intrusive_ptr<c10d::Work> work, Alarm& alarm, WaitingThreads& threads, int peer, int world_rank)
      : work_(std::move(work)), alarm_(&alarm), threads_(&threads), peer_(peer), world_rank_(world_rank) {}
  ~GlooMessage() override {
    if (!beside_ || beside_->is_over()) return;
    work_->abort();
    beside_->wait();
  }
  GlooMessage(const GlooMessage&) = delete;
  GlooMessage& operator=(const GlooMessage&) = delete;

  void wait() override;
  void abort() override { work_->abort(); }
  bool is_over() override;

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  Alarm* alarm_;
  WaitingThreads* threads_;
  std::shared_ptr<WaitBeside> beside_;  // since the message was asked; null: it was not
  int peer_;
  int world_rank_;
};

class EmptyMessage final : public Message {
 public:
  void wait() override {}
  void abort() override {}
  bool is_over() override { return true; }
};

TransportFailure closed_connection(int peer, int world_rank) {
  return {fmt::format("the connection to {} was closed (it failed or ended early; see its own message)",
                      text_of_rank(world_rank)),
          peer};
}

bool GlooMessage::is_over() {
  if (!beside_) {
    beside_ = std::make_shared<WaitBeside>();
    threads_->begin([beside = beside_, work = work_.get()] { beside->run(*work); });
  }
  return beside_->is_over();
}

void GlooMessage::wait() {
  Alarm::Wait wait(*alarm_, [this] { work_->abort(); });
  const Arrival found = beside_ ? beside_->wait() : wait_for_work(*work_);
  if (found == Arrival::Arrived) return;
  if (found == Arrival::Closed) throw closed_connection(peer_, world_rank_);
  beside_.reset();
  if (!wait.has_rung())
    throw TransportFailure(fmt::format("the wait for {} was aborted", text_of_rank(world_rank_)), peer_);
  throw TransportFailure(fmt::format("{} did not answer within {} ms (stopped, stuck or busy?)",
                                     text_of_rank(world_rank_), alarm_->timeout().count()),
                         peer_);
}

std::vector<std::string> interface_names() {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  std::vector<std::string> interfaces;
  for (const char* at = names; at && *at;) {
    std::string name(at, std::strcspn(at, ","));
    at += name.size() + (at[name.size()] == ',');
    if (!name.empty()) interfaces.push_back(name);
  }
  return interfaces;
}

// Gloo's own choice is what the host's name stands for, which is often the loopback interface.
std::shared_ptr<::gloo::transport::Device> device_towards_others(const std::string& address) {
  return address.empty() ? ProcessGroupGloo::createDefaultDevice() : ProcessGroupGloo::createDeviceForHostname(address);
}

c10::intrusive_ptr<ProcessGroupGloo::Options> gloo_options(const GroupSpec& spec) {
  auto options = ProcessGroupGloo::Options::create(spec.timeout);
  options->threads = 1;  // they run Gloo's own collectives, of which we use none
  std::vector<std::string> interfaces = spec.one_host ? std::vector<std::string>{"lo"} : interface_names();
  for (const std::string& interface : interfaces)
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(interface));
  if (interfaces.empty()) options->devices.push_back(device_towards_others(spec.address));
  return options;
}

// While it lives, a write of this thread's to a peer that is gone is an error and sends no SIGPIPE, which would end the
// process unexplained. Threads that are started meanwhile keep to that.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BrokenPipesAreErrors() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once = {};
    sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

// While it lives, threads that this one starts do not interrupt others when they wake up; a core that is free they take
// at once. Gloo's thread is woken as soon as bytes arrive. Where it pushes aside the thread that holds the lock it
// needs, it tries in vain until the scheduler lets that thread go on: with more ranks than cores, a third of all
// processor time.
class StartsPatientThreads {
 public:
  StartsPatientThreads() : usual_(sched_getscheduler(0) == SCHED_OTHER) { set(SCHED_BATCH); }
  ~StartsPatientThreads() { set(SCHED_OTHER); }
  StartsPatientThreads(const StartsPatientThreads&) = delete;
  StartsPatientThreads& operator=(const StartsPatientThreads&) = delete;

 private:
  // A policy set by the environment stays. A failure costs time at most.
  void set(int policy) const {
    const sched_param no_priority = {};
    if (usual_) sched_setscheduler(0, policy, &no_priority);
  }

  const bool usual_;
};

c10::intrusive_ptr<ProcessGroupGloo> connect(const GroupSpec& spec) {
  const BrokenPipesAreErrors errors;
  const StartsPatientThreads threads;
  const auto begin = std::chrono::steady_clock::now();
  try {
    spec.store->setTimeout(spec.timeout);
    return c10::make_intrusive<ProcessGroupGloo>(spec.store, spec.rank, spec.size, gloo_options(spec));
  } catch (const Error&) {
    throw;  // another program wrote to the store
  } catch (const std::exception& failure) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    std::string text = failure.what();
    bool died = text.find("onnection closed") != std::string::npos || text.find("reset by peer") != std::string::npos;
    std::string reason = is_timeout(text) ? "not all of them came"
                         : died           ? "one of them died meanwhile; see its own message"
                                          : text.substr(0, text.find('\n'));
    throw PeerLost(fmt::format(
        "{}gloo: the {} ranks were not connected after {} ms: {}. Check that every rank "
        "has started{}.",
        message_prefix(), spec.size, passed.count(), reason,
        spec.one_host ? "" : ", and that GLOO_SOCKET_IFNAME, where it is set, names the interface between the hosts"));
  }
}

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(const GroupSpec& spec)
      : world_ranks_(spec.world_ranks), group_(connect(spec)), alarm_(spec.timeout) {}

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override {
    // Gloo's interface knows no constant tensors; it only reads this one.
    return start(const_cast<void*>(bytes), size, peer,
                 [&](std::vector<at::Tensor>& tensors) { return group_->send(tensors, peer, tag); });
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override {
    return start(bytes, size, peer, [&](std::vector<at::Tensor>& tensors) { return group_->recv(tensors, peer, tag); });
  }

 private:
  template <typename Operation>
  std::unique_ptr<Message> start(void* bytes, size_t size, int peer, Operation&& operation) {
    if (size == 0) return std::make_unique<EmptyMessage>();
    int world_rank = world_ranks_.empty() ? peer : world_ranks_[peer];
    const BrokenPipesAreErrors errors;
    try {
      std::vector<at::Tensor> tensors{at::from_blob(bytes, {static_cast<int64_t>(size)}, at::kByte)};
      std::lock_guard lock(mutex_);
      return std::make_unique<GlooMessage>(operation(tensors), alarm_, threads_, peer, world_rank);
    } catch (const std::exception&) {
      throw closed_connection(peer, world_rank);
    }
  }

  std::vector<int> world_ranks_;
  std::mutex mutex_;  // the process group counts its messages
  c10::intrusive_ptr<ProcessGroupGloo> group_;
  Alarm alarm_;
  WaitingThreads threads_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(const GroupSpec& spec) { return std::make_unique<GlooTransport>(spec); }

std::shared_ptr<Wire> make_gloo_wire(const GroupSpec& spec) {
  auto wire = std::make_shared<Wire>(make_gloo_transport(spec), make_store_board(spec.store), spec.world_ranks,
                                     spec.calls, spec.place);
  // A rank that is done at once must not close connections that a slower one is still about to make.
  ExchangeGroup(wire).barrier();
  return wire;
}

std::unique_ptr<Group> make_gloo_group(const GroupSpec& spec) {
  return std::make_unique<ExchangeGroup>(make_gloo_wire(spec));
}

}  // namespace fsdp::collectives
