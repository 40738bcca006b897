// State that the copies of a World share: who this rank is and how to reach the others.
//
// It has so many members because the groups and the splits of a world need the same of it: its ranks, their devices,
// their store, and the calls that their user makes.
//
// One thread at a time. Owns the group; units and groups made from it may outlive it.
#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/world_calls.h"
#include "memory/backing.h"
#include "memory/offload_folder.h"
#include "world/identity.h"
#include "world/pending.h"

namespace fsdp::world {

class State : public std::enable_shared_from_this<State> {
 public:
  // `store` is shared by exactly these ranks, and may be null for a single one. `world_ranks` is how messages call the
  // ranks; empty: by their own number. `device` is this rank's; none: chosen by the backend and the rank's number on
  // its host. `address` is this host's, as the other hosts reach it; empty: the system's choice. `parent` is the world
  // that this one is split from, and `name` the same on these ranks alone. `where` follows a rank's action in messages:
  // "along data". A collective.
  State(Identity identity, std::string backend, std::chrono::milliseconds timeout,
        c10::intrusive_ptr<c10d::Store> store, std::vector<int> world_ranks = {},
        std::optional<torch::Device> device = std::nullopt, std::string address = {}, const State* parent = nullptr,
        std::string name = "world", std::string where = "in the world");

  const Identity& identity() const { return identity_; }
  const torch::Device& device() const { return device_; }
  collectives::Group& group() { return *group_; }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  // A call that the user makes of this world. While it lives, the other groups of these ranks know of it.
  class Call {
   public:
    // `purpose` is in words that follow "rank 1 ".
    Call(State& state, const std::string& purpose);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    State& state_;
  };

  // Prepares a call that is no `Call`: a message, or a collective beside the program.
  void run_before_call();
  // Begins the collective on a thread of its own. The first one connects the ranks once more, so all ranks make it at
  // the same place among their other collectives. `purpose` is in words that follow "rank 1 ".
  std::shared_ptr<Pending> run_beside(std::string purpose, Background::Call call);
  // A handle of a call that the user has begun. If the handle is dropped, the call goes on.
  std::shared_ptr<Pending> keep(std::shared_ptr<Pending> pending);

  // `action` runs before each call that the user makes of this world or of one that was split from the same, until it
  // returns false.
  void before_calls(std::function<bool()> action) { before_calls_->push_back(std::move(action)); }
  // A group of these ranks, by a function that returns false when it is gone: Group::note_call.
  using NoteCall = std::function<bool(const collectives::WorldCall* call)>;
  void tell_of_calls(NoteCall note) { told_of_calls_->push_back(std::move(note)); }

  // This rank's part of the folder, which all models share that are offloaded to it; gone with the last of them.
  std::shared_ptr<const memory::OffloadFolder> offload_folder(const std::filesystem::path& path);

  // This rank does not end as it should: its peers must not take its end for a return.
  void note_exception() { calls_->note_exception(); }

  // Where the state of training lies that outlives this process; none: nowhere.
  const std::shared_ptr<memory::Backing>& held() const { return held_; }
  void hold_in(std::shared_ptr<memory::Backing> held) { held_ = std::move(held); }

  // True if groups for tensors on the ranks' devices exchange them over NCCL.
  bool uses_nccl() const;
  // A further group of the same ranks with connections of its own. A collective.
  std::unique_ptr<collectives::Group> new_group();
  // The same for tensors on the CPU, whatever this rank's device.
  std::unique_ptr<collectives::Group> new_host_group();
  // The ranks of one color as a world of their own, by their keys; of equal keys by their ranks. `where` as above;
  // empty: it names the ranks. A collective.
  std::shared_ptr<State> split(int color, int key = 0, std::string where = {});

 private:
  torch::Device take_own_device() const;
  bool on_several_hosts() const { return store_ && identity_.local_size != identity_.size; }
  void complete_dropped();
  void note_call(const collectives::WorldCall* call);
  std::shared_ptr<collectives::WorldCalls> make_calls() const;
  void tell_own_group();
  std::string own_place(const std::string& device) const;
  void tell(const std::string& what, const std::string& text) const;
  std::vector<std::string> tell_every_rank(const std::string& what, const std::string& text) const;
  int ask_ranks_of_every_host() const;
  bool ask_whether_devices_are_shared() const;
  // `place`: of the group among those of these ranks.
  std::unique_ptr<collectives::Group> connect(const std::string& name, const std::string& backend, torch::Device device,
                                              collectives::WorldCalls::Place place);
  collectives::WorldCalls::Place own_group() const;
  collectives::WorldCalls::Place place_of(const std::string& group, const std::string& what) const;
  collectives::WorldCalls::Place place_of_model(const std::string& group) const;
  c10::intrusive_ptr<c10d::Store> store_under(const std::string& name) const;  // null without a store

  Identity identity_;
  std::string backend_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<int> world_ranks_;
  std::string address_;
  torch::Device device_;
  int ranks_of_a_host_;
  bool shares_device_;            // some ranks have one between them
  int children_ = 0;              // groups and splits made from this one so far: names them in the store
  bool tells_own_group_ = false;  // of calls of other worlds
  const std::string name_, where_;
  const uint64_t number_;  // of this world among this rank's
  const std::shared_ptr<collectives::WorldCalls> calls_;
  std::optional<Background> background_;  // once used. Ends after the group: a failure here may be what it waits for
  std::unique_ptr<collectives::Group> group_;
  std::vector<std::shared_ptr<Pending>> pending_;
  std::shared_ptr<std::vector<std::function<bool()>>> before_calls_ =
      std::make_shared<std::vector<std::function<bool()>>>();
  std::shared_ptr<std::vector<NoteCall>> told_of_calls_ = std::make_shared<std::vector<NoteCall>>();
  // By path. Shared, as the one above, with the worlds that are split from this one.
  using Folders = std::map<std::filesystem::path, std::weak_ptr<const memory::OffloadFolder>>;
  std::shared_ptr<Folders> folders_ = std::make_shared<Folders>();
  std::shared_ptr<memory::Backing> held_;
};

}  // namespace fsdp::world
