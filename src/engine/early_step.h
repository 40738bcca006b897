// How far a step has come that an optimizer begins while the backward still runs.
//
// Pure state: the engine acts on it (step_in_backward.cpp). Not for concurrent use.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::engine {

struct Unit;

// What an optimizer does to a unit's shard, which may be written. It multiplies the gradients by the factors first, and
// writes what it changes in the dtype of full parameters as well, where that is another one.
using UnitUpdate = std::function<void(const Unit& unit, std::span<const float> factors)>;

class EarlyStep {
 public:
  explicit EarlyStep(size_t units) : progress_(units, Progress::Old) {}

  // The next backward is the step's last.
  void open(std::weak_ptr<const UnitUpdate> update) {
    stage_ = Stage::Foreseen;
    update_ = std::move(update);
  }
  // No backward is to come. A step that has begun stays.
  void close() {
    if (foreseen() && !left_any()) end();
  }
  void backward_ends() {
    if (foreseen()) stage_ = Stage::Begun;
    forget_candidates();
  }
  // It can be neither ended nor undone; `why` is for messages.
  void break_off(std::string why) {
    stage_ = Stage::Broken;
    why_broken_ = std::move(why);
    update_.reset();
    forget_candidates();
  }
  void end() {
    stage_ = Stage::None;
    forget_candidates();
    std::fill(progress_.begin(), progress_.end(), Progress::Old);
  }

  bool foreseen() const { return stage_ == Stage::Foreseen; }
  bool begun() const { return stage_ == Stage::Begun; }
  bool broken() const { return stage_ == Stage::Broken; }
  const std::string& why_broken() const { return why_broken_; }
  bool open() const { return stage_ != Stage::None; }
  std::shared_ptr<const UnitUpdate> update() const { return update_.lock(); }

  // The unit's gradients have been reduced: it may be stepped when this backward is done with it.
  void reduced(int unit) { candidates_.push_back(unit); }
  const std::vector<int>& candidates() const { return candidates_; }
  void forget_candidates() { candidates_.clear(); }
  void leave(int unit) { progress_[unit] = Progress::Left; }
  void stepped(int unit) {
    progress_[unit] = Progress::Stepped;
    std::erase(candidates_, unit);
  }

  // This rank uses the unit no more, and peers may have written it.
  bool has_left(int unit) const { return progress_[unit] != Progress::Old; }
  bool left_any() const {
    return std::any_of(progress_.begin(), progress_.end(), [](Progress progress) { return progress != Progress::Old; });
  }
  bool has_stepped(int unit) const { return progress_[unit] == Progress::Stepped; }
  bool stepped_any() const { return std::count(progress_.begin(), progress_.end(), Progress::Stepped) > 0; }

 private:
  enum class Stage {
    None,
    Foreseen,  // its last backward is the next, or runs
    Begun,     // that backward is over; the optimizer's step() does the rest
    Broken,    // some units were stepped, and the others will not be
  };
  enum class Progress : uint8_t { Old, Left, Stepped };

  Stage stage_ = Stage::None;
  std::string why_broken_;
  std::weak_ptr<const UnitUpdate> update_;
  std::vector<Progress> progress_;  // of each unit
  std::vector<int> candidates_;     // reduced and not stepped
};

}  // namespace fsdp::engine
