// A save beside training that is slowed down for a test: its thread stops at a step until it is let go.
#pragma once

#include <fsdp/fsdp.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "checkpoint/background_saves.h"
#include "support/temporary_folder.h"

namespace fsdp::testing {

using SaveStep = checkpoint::BackgroundSaves::Step;

// Of the saves that a model makes while it lives, on this rank. Made on every rank.
class HeldSave {
 public:
  HeldSave(ShardedModel& sharded, SaveStep at) : saves_(checkpoint::background_saves_of(sharded.model())) {
    saves_.watch_steps([let_go = let_go_.get_future().share(), at](SaveStep step) {
      if (step == at) let_go.wait();
    });
  }
  ~HeldSave() {
    if (later_.joinable()) later_.join();
    let_go();
    saves_.finish();
    saves_.watch_steps(nullptr);
  }
  HeldSave(const HeldSave&) = delete;
  HeldSave& operator=(const HeldSave&) = delete;

  void let_go() {
    std::call_once(once_, [this] { let_go_.set_value(); });
  }
  // From another thread, for a caller that may be waiting by then. Nothing is wrong where it is not.
  void let_go_later() {
    later_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      let_go();
    });
  }

 private:
  checkpoint::BackgroundSaves& saves_;
  std::promise<void> let_go_;
  std::once_flag once_;
  std::thread later_;
};

// The bytes of each file of a checkpoint.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& checkpoint) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint))
    files[entry.path().filename()] = read_bytes(entry.path());
  return files;
}

}  // namespace fsdp::testing
