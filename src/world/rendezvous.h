// How the ranks of a job find a shared store, in which writes of others are detected.
//
// Owns the store, which others may still use when this rank is done.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "files/reading.h"
#include "world/environment.h"

namespace fsdp::world {

// A store in `file`, which the ranks of one host share and which stays open as long as the store is used.
c10::intrusive_ptr<c10d::Store> open_file_store(const files::Descriptor& file, int size);

// One rank's part in the rendezvous of a launcher's job. The ranks meet once, however often they launch.
class Rendezvous {
 public:
  // Throws Error when the store cannot be reached in time.
  Rendezvous(const LauncherJob& job, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // This process's part of the store for its launch of that number; null for a single rank.
  c10::intrusive_ptr<c10d::Store> store_of(int launch, std::chrono::milliseconds timeout) const;
  // By which this rank reaches the store: its other connections go the same way. Empty where the ranks need none.
  const std::string& own_address() const { return own_address_; }

  // This rank needs that launch's part no longer. After a success, the rank that hosts the store waits for the others.
  void finish(int launch, bool success, std::chrono::milliseconds timeout) const;

 private:
  void rendezvous_on_this_host(const LauncherJob& job);
  void rendezvous_at_first_rank(const LauncherJob& job);
  void rendezvous_at_agent(const LauncherJob& job);
  void connect(const LauncherJob& job, const std::string& address, int listening_socket);
  void guard(const LauncherJob& job, const std::string& address);

  std::chrono::milliseconds timeout_;
  int size_;
  bool hosts_ = false;
  files::Descriptor file_;  // that the store is in, if it is in one
  std::string own_address_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace fsdp::world
