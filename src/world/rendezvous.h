// How the ranks of a job come by a store that they share, and that nobody else can write to unnoticed.
//
// Owns the store, and what has to be tidied away behind it: a directory, or the store that others still use.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <filesystem>
#include <string>

#include "world/environment.h"

namespace fsdp::world {

// The file in `directory` that the ranks of one host share as their store.
c10::intrusive_ptr<c10d::Store> open_file_store(const std::filesystem::path& directory, int size,
                                                std::chrono::milliseconds timeout);

// One rank's part in the meeting of a launcher's job.
class Rendezvous {
 public:
  // Throws Error when the store cannot be reached in time.
  Rendezvous(const LauncherJob& job, std::chrono::milliseconds timeout);
  ~Rendezvous() { finish(false); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // By which this rank reaches the store: its other connections go the same way. Empty where the ranks need none.
  const std::string& own_address() const { return own_address_; }

  // This rank needs the store no longer. After a success, the rank that hosts it waits for the others.
  void finish(bool success);

 private:
  void meet_in_directory(const LauncherJob& job);
  void meet_at_first_rank(const LauncherJob& job);
  void meet_at_agent(const LauncherJob& job);
  void connect(const LauncherJob& job, const std::string& address, int listening_socket);
  void guard(const LauncherJob& job, const std::string& address);
  void wait_for_others(c10d::Store& store) const;

  std::chrono::milliseconds timeout_;
  int size_;
  bool hosts_ = false;
  std::filesystem::path directory_;
  std::string own_address_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace fsdp::world
